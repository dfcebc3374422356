"""Small modules. Each shows one way in which networks slice."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


class Rotary(nn.Module):
    """Query rotated by halves, as Llama does: two sibling slices that tile the last axis."""

    def forward(self, x, cos, sin):
        half = x.shape[-1] // 2
        rotated = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
        return x * cos + rotated * sin


class RotaryInterleaved(nn.Module):
    """Query rotated by even and odd channels: slices with step 2 that interleave."""

    def forward(self, x):
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack((-odd, even), dim=-1).flatten(-2)


class Focus(nn.Module):
    """Space to depth by slices with step 2 on two axes (YOLO's Focus)."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(12, 4, 1)

    def forward(self, x):
        parts = (x[..., ::2, ::2], x[..., 1::2, ::2], x[..., ::2, 1::2], x[..., 1::2, 1::2])
        return self.conv(torch.cat(parts, 1))


class UNet(nn.Module):
    """A skip connection cropped to the centre: offsets on two axes of NCHW."""

    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(3, 4, 3, stride=2)
        self.up = nn.ConvTranspose2d(4, 3, 2, stride=2)

    def forward(self, x):
        y = self.up(torch.relu(self.down(x)))
        top, left = (x.shape[2] - y.shape[2]) // 2, (x.shape[3] - y.shape[3]) // 2
        skip = x[:, :, top : top + y.shape[2], left : left + y.shape[3]]
        return torch.cat((skip, y), 1)


class ConformerConv(nn.Module):
    """A Conformer's convolution module: GLU is a Split whose halves are multiplied after a Sigmoid."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.pointwise = nn.Conv1d(8, 16, 1)
        self.depthwise = nn.Conv1d(8, 8, 3, padding=1, groups=8)

    def forward(self, x):
        y = self.pointwise(self.norm(x).transpose(1, 2))
        return self.depthwise(F.glu(y, dim=1)).transpose(1, 2) + x


class GatedMlp(nn.Module):
    """A gated MLP with one projection for gate and value. Only the gate has an activation."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(16, 8)

    def forward(self, x):
        gate, value = self.up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * value)


class GruCell(nn.Module):
    """A GRU cell written out: chunks of 3, one of them used twice."""

    def __init__(self):
        super().__init__()
        self.i, self.h = nn.Linear(6, 18), nn.Linear(6, 18)

    def forward(self, x, state):
        for t in range(x.shape[1]):
            ir, iz, i_n = self.i(x[:, t]).chunk(3, 1)
            hr, hz, hn = self.h(state).chunk(3, 1)
            z = torch.sigmoid(iz + hz)
            state = (1 - z) * torch.tanh(i_n + torch.sigmoid(ir + hr) * hn) + z * state
        return state


class WindowShift(nn.Module):
    """Swin's cyclic shift: rolls, each two slices and a concat, on two axes."""

    def forward(self, x):
        y = torch.roll(x, (-2, -2), (1, 2))
        b, h, w, c = y.shape
        y = y.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        return y - y.mean(1, keepdim=True)


class PatchMerging(nn.Module):
    """Swin's patch merging: four interleaved slices of two axes."""

    def __init__(self):
        super().__init__()
        self.reduction = nn.Linear(16, 8, bias=False)

    def forward(self, x):
        parts = (x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2])
        return self.reduction(torch.cat(parts, -1))


class Flips(nn.Module):
    """Reversed axes, one and two at a time, and a reversed step."""

    def forward(self, x):
        return torch.flip(x, (1,)) + torch.flip(x, (1, 2)), torch.flip(x, (0,))[:, ::2]


class CausalMask(nn.Module):
    """Attention with a slice of a boolean buffer: the mask folds to a constant once the length is known."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.register_buffer("mask", torch.tril(torch.ones(1, 32, 32, dtype=torch.bool)))

    def forward(self, x):
        q, k, v = self.qkv(x).split(8, dim=2)
        scores = (q @ k.transpose(1, 2)).masked_fill(~self.mask[:, : x.shape[1], : x.shape[1]], -1e9)
        return torch.softmax(scores, -1) @ v


class StateSpace(nn.Module):
    """A state-space scan step by step: a part of every row at each step."""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.rand(4, 3))
        self.project = nn.Linear(4, 7)

    def forward(self, x):
        dt, b, c = self.project(x).split((1, 3, 3), dim=-1)
        state, out = torch.zeros(x.shape[0], 4, 3), []
        for t in range(x.shape[1]):
            state = state * torch.exp(-self.a * dt[:, t : t + 1]) + x[:, t, :, None] * b[:, t, None]
            out.append((state * c[:, t, None]).sum(-1))
        return torch.stack(out, 1)


class Uneven(nn.Module):
    """Parts of different sizes, one of them never used, and a part of a part."""

    def forward(self, x):
        a, b, _, d = torch.split(x, (1, 4, 2, 3), dim=1)
        return a + b[:, 1:2], d[:, :, -1], x[:, 2:9:3]


class Types(nn.Module):
    """bool, int64, float16 and float64 data."""

    def forward(self, x):
        return (x > 0)[:, 1:], x.long()[:, :-1], x.half()[1:, ::2], x.double()[:1]


class Encoder(nn.Module):
    """Two pre-norm transformer blocks, each with one projection for query, key and value."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(8, 24) for _ in range(2))

    def forward(self, x):
        b, n, c = x.shape
        for project in self.blocks:
            q, k, v = project(x).reshape(b, n, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
            x = x + (torch.softmax(q @ k.transpose(-2, -1), -1) @ v).transpose(1, 2).reshape(b, n, c)
        return x[:, 0], x[:, 1:]


class Lstm(nn.Module):
    """Two layers in both directions: every layer gets its slice of the initial states."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 4, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x, h, c):
        y, (h, c) = self.lstm(x, (h, c))
        return y[:, -1:], h[-2:], c


class LstmCell(nn.Module):
    """An LSTM cell written out: chunks of 4 at every step."""

    def __init__(self):
        super().__init__()
        self.i, self.h = nn.Linear(6, 24), nn.Linear(6, 24)

    def forward(self, x, state, cell):
        for t in range(x.shape[1]):
            i, f, g, o = (self.i(x[:, t]) + self.h(state)).chunk(4, 1)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
            state = torch.sigmoid(o) * torch.tanh(cell)
        return state, cell


class Haar(nn.Module):
    """A wavelet step: even and odd samples. The length may be odd, so a last sample without a partner is cut off."""

    def forward(self, x):
        n = x.shape[-1] // 2 * 2
        even, odd = x[..., :n:2], x[..., 1:n:2]
        return (even + odd) / 2, (even - odd) / 2


class CrossStage(nn.Module):
    """A cross-stage block of a YOLO: channels in two halves, one through convolutions."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(4, 8, 1), nn.Conv2d(16, 4, 1)
        self.middle = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(2))

    def forward(self, x):
        parts = list(self.first(x).split((4, 4), 1))
        parts.extend(convolution(parts[-1]) for convolution in self.middle)
        return self.last(torch.cat(parts, 1))


class Boxes(nn.Module):
    """A detector's head: uneven parts of the last axis, one of them unused. One part has centres and sizes of boxes."""

    def forward(self, x):
        box, score, _, classes = x.split((4, 1, 2, 3), -1)
        half = box[..., 2:] / 2
        return torch.cat((box[..., :2] - half, box[..., :2] + half), -1), (score * classes)[..., -2:]


class CausalConvolutions(nn.Module):
    """Convolutions that are padded at both ends. The surplus is cut off at one end."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv1d(3, 4, 3, padding=2)
        self.b = nn.Conv1d(4, 4, 3, padding=4, dilation=2)

    def forward(self, x):
        return self.b(self.a(x)[..., :-2].relu())[..., :-4]


class TemporalShift(nn.Module):
    """Channels of a video shifted by a frame, forward and back."""

    def forward(self, x):
        back = F.pad(x[:, 1:, :2], (0, 0, 0, 0, 0, 0, 0, 1))
        forward = F.pad(x[:, :-1, 2:4], (0, 0, 0, 0, 0, 0, 1, 0))
        return torch.cat((back, forward, x[:, :, 4:]), 2)


class Windows(nn.Module):
    """Overlapping windows along an axis."""

    def forward(self, x):
        return x.unfold(1, 4, 3).mean(-1)


class ZeroPart(nn.Module):
    """Parts, one of them empty."""

    def forward(self, x):
        a, b, c = x.split((0, 4, 3), 1)
        return torch.cat((c, a, b), 1), a


class Cache(nn.Module):
    """The last entries of a cache that has grown: one window fits, the other is wider than the cache."""

    def forward(self, x, y):
        keys = torch.cat((x, y), 2)
        return keys[:, :, -4:], keys[:, :, -60:] * 2, keys[:, :, :-1]


class Assignment(nn.Module):
    """Assignment to a slice. The exporter selects the indices of the assigned elements by a slice of a range."""

    def forward(self, x):
        y = x * 2
        y[:, 1:3] = x[:, -2:]
        return y


class Bfloat16Cache(nn.Module):
    """Keys and values stored as bfloat16. They are sliced first, then converted to float32."""

    def forward(self, x):
        keys, values = x.split((4, 4), -1)
        return keys[:, -3:].float() + 1, values[:, :-1, ::2].float(), x.flip(1)


class Video(nn.Module):
    """Windows of a video shifted on three axes, patches merged, and pictures without their borders reversed."""

    def forward(self, x):
        y = torch.roll(x, (-1, -2, -2), (1, 2, 3))
        return torch.cat((y[:, ::2, ::2], y[:, 1::2, 1::2]), -1), x[:, :, 1:-1, 1:-1].flip(2, 3)


class Attention(nn.Module):
    """The last position of torch's own attention."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0][:, -1:]


class Pixels(nn.Module):
    """Bytes of an image: a crop, its channels reversed, and a mirror image."""

    def forward(self, x):
        return x[:, 2:-2, 3:11].flip(-1).permute(0, 3, 1, 2).float() / 255, x.flip(2)


class TokenShift(nn.Module):
    """RWKV's mix of each token with the previous token."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 16)

    def forward(self, x):
        before = torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), 1)
        gate, key = self.project(x * 0.5 + before * 0.5).chunk(2, -1)
        return torch.sigmoid(gate) * F.relu(key) ** 2


class Indices(nn.Module):
    """Slices of int64, bool and int32 inputs."""

    def forward(self, x, y, z):
        return x[:, 1:-1], y[:, :, 1::3], z[-2:]
