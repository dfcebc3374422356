"""Export small modules to ONNX, each one way in which networks slice.

pip install torch==2.13.0 'transformers>=5.23,<5.24' onnx onnxscript
python models/export_modules.py [--out DIR] [NAME ...]
"""

from __future__ import annotations

import sys

import torch
from export_torch import Export, run
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
    """A gated MLP with one projection for gate and value, of unequal use."""

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
        return a + b[:, 1:2], d[:, :, -1], x[:, 9:2:-1] if False else x[:, 2:9:3]


class Types(nn.Module):
    """bool, int64, float16 and float64 data."""

    def forward(self, x):
        return (x > 0)[:, 1:], x.long()[:, :-1], x.half()[1:, ::2], x.double()[:1]


class Halves(nn.Module):
    """A branch of an If each with its own slice."""

    def forward(self, x, flag: bool):
        if flag:
            return x[:, :2] * 2
        return x[:, -2:] + 1


class Steps(nn.Module):
    """A loop whose body slices what it carries."""

    def forward(self, x, n: int):
        for _ in range(n):
            x = torch.cat((x[:, 1:], x[:, :1]), 1)
        return x


class Encoder(nn.Module):
    """Two blocks of a pre-norm transformer with one projection for query, key and value."""

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
    """A wavelet step: even and odd samples of a length that may be odd, so the last sample is cut off."""

    def forward(self, x):
        n = x.shape[-1] // 2 * 2
        even, odd = x[..., :n:2], x[..., 1:n:2]
        return (even + odd) / 2, (even - odd) / 2


class CrossStage(nn.Module):
    """A cross-stage block of a YOLO: channels in two halves, of which one goes through convolutions."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Conv2d(4, 8, 1), nn.Conv2d(16, 4, 1)
        self.middle = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(2))

    def forward(self, x):
        parts = list(self.first(x).split((4, 4), 1))
        parts.extend(convolution(parts[-1]) for convolution in self.middle)
        return self.last(torch.cat(parts, 1))


class Boxes(nn.Module):
    """A detector's head: uneven parts of the last axis, one of them unused, and centres and sizes of the boxes."""

    def forward(self, x):
        box, score, _, classes = x.split((4, 1, 2, 3), -1)
        half = box[..., 2:] / 2
        return torch.cat((box[..., :2] - half, box[..., :2] + half), -1), (score * classes)[..., -2:]


class CausalConvolutions(nn.Module):
    """Convolutions padded at both ends, the surplus cut off at one."""

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
    """Parts of which one is empty."""

    def forward(self, x):
        a, b, c = x.split((0, 4, 3), 1)
        return torch.cat((c, a, b), 1), a


class Cache(nn.Module):
    """The last entries of a cache that has grown: one window fits, the other is wider than the cache."""

    def forward(self, x, y):
        keys = torch.cat((x, y), 2)
        return keys[:, :, -4:], keys[:, :, -60:] * 2, keys[:, :, :-1]


class Assignment(nn.Module):
    """Assignment to a slice: what is written is a slice, and where to is a slice of a range."""

    def forward(self, x):
        y = x * 2
        y[:, 1:3] = x[:, -2:]
        return y


class Branches(nn.Module):
    """`torch.cond`: slices in both branches, one of them of a reversed axis."""

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x[:, :3] * 2, lambda x: x.flip(1)[:, 1:4] + 1, (x,))


class Recurrence(nn.Module):
    """`scan`: gate and value are the halves of what a step computes."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(4, 8)

    def forward(self, x, state):
        from torch._higher_order_ops.scan import scan

        weight, bias = self.project.weight, self.project.bias

        def step(state, x):
            gate, value = F.linear(x, weight, bias).split(4, -1)
            state = torch.sigmoid(gate) * state + value
            return state, state * 1.0

        return scan(step, state, x, dim=0)


class While(nn.Module):
    """`while_loop`: a rotation by one place, as often as an input says."""

    def forward(self, x, n):
        from torch._higher_order_ops.while_loop import while_loop

        def rotate(x, n):
            return torch.cat((x[:, 1:], x[:, :1]), 1), n - 1

        return while_loop(lambda x, n: n > 0, rotate, (x, n))


class BranchInLoop(nn.Module):
    """A branch in a loop, each with slices."""

    def forward(self, x, n: int):
        for i in range(n):
            if i % 2 == 0:
                x = torch.cat((x[:, 2:], x[:, :2]), 1)
            else:
                x = x.flip(1)
        return x


class Gate(nn.Module):
    """A gated unit that is exported as a function."""

    __module__ = "gated"

    def forward(self, x):
        value, gate = x.chunk(2, -1)
        return value * torch.sigmoid(gate)


class Gates(nn.Module):
    """One function called on two shapes."""

    def __init__(self):
        super().__init__()
        self.gate, self.up = Gate(), nn.Linear(4, 12)

    def forward(self, x):
        return self.gate(self.up(self.gate(x)))


class Bfloat16Cache(nn.Module):
    """Keys kept as bfloat16: cut as they are, then widened."""

    def forward(self, x):
        keys, values = x.split((4, 4), -1)
        return keys[:, -3:].float() + 1, values[:, :-1, ::2].float(), x.flip(1)


class Video(nn.Module):
    """Windows of a video shifted on three axes, patches merged, and a frame of pixels cut off and reversed."""

    def forward(self, x):
        y = torch.roll(x, (-1, -2, -2), (1, 2, 3))
        return torch.cat((y[:, ::2, ::2], y[:, 1::2, 1::2]), -1), x[:, :, 1:-1, 1:-1].flip(2, 3)


class Attention(nn.Module):
    """torch's own attention, of which the last position is kept."""

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
    """RWKV's mix with the token before."""

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


R = torch.rand
PIXELS = (R(1, 12, 16, 3) * 255).byte()
FILM = R(1, 4, 6, 6, 2)
INTEGERS = (torch.arange(24).reshape(4, 6), R(2, 3, 7) > 0.5, torch.arange(12).int().reshape(4, 3))
HALF = (R(1, 2, 5, 6).half(), R(5, 6).half(), R(5, 6).half())
SEQ = {"x": {1: "seq"}}
IMAGE = {"x": {2: "height", 3: "width"}}
EXPORTS: dict[str, Export] = {
    "dynamo_attention_dyn": Export(
        Attention, (R(1, 5, 8),), "dynamo", 19, "fused attention: slices of shapes fold, the last position stays", SEQ
    ),
    "dynamo_bfloat16_cache": Export(Bfloat16Cache, (R(1, 5, 8).bfloat16(),), "dynamo", 18, "bfloat16 data"),
    "dynamo_branches": Export(Branches, (R(2, 5),), "dynamo", 18, "slices in both branches of an If, one on a flip"),
    "dynamo_conformer": Export(ConformerConv, (R(1, 10, 8),), "dynamo", 18, "GLU: a Split into Sigmoid and Mul"),
    "dynamo_encoder": Export(Encoder, (R(1, 5, 8),), "dynamo", 18, "qkv by unbind; class token and patches"),
    "dynamo_flips": Export(Flips, (R(2, 4, 6),), "dynamo", 18, "reversed axes"),
    "dynamo_half_rotary": Export(Rotary, HALF, "dynamo", 18, "float16 rotary halves, cut at 6 bytes"),
    "dynamo_indices": Export(Indices, INTEGERS, "dynamo", 19, "int64, bool and int32 inputs, each a copy of bits"),
    "dynamo_pixels_dyn": Export(
        Pixels,
        (PIXELS,),
        "dynamo",
        20,
        "bytes: a crop of open height and width, channels reversed",
        {"x": {1: "height", 2: "width"}},
    ),
    "dynamo_recurrence": Export(Recurrence, (R(5, 2, 4), R(2, 4)), "dynamo", 20, "a Split in the body of a Scan"),
    "dynamo_token_shift_dyn": Export(
        TokenShift, (R(1, 5, 8),), "dynamo", 18, "all but the last token, open length; a Split", SEQ
    ),
    "dynamo_uneven": Export(Uneven, (R(2, 10, 3),), "dynamo", 20, "uneven parts, one unused; a slice of a part"),
    "dynamo_video": Export(
        Video, (FILM,), "dynamo", 19, "five dimensions: rolls of three axes, steps, two axes reversed"
    ),
    "dynamo_while": Export(While, (R(2, 5), torch.tensor(3)), "dynamo", 18, "slices in the body of a Loop"),
    "dynamo_window_shift": Export(WindowShift, (R(1, 8, 8, 3),), "dynamo", 18, "rolls: two slices and a concat each"),
    "dynamo_zero_part": Export(ZeroPart, (R(2, 7, 3),), "dynamo", 18, "a part of size 0 that is an output"),
    "ts_assignment_15": Export(Assignment, (R(2, 5, 3),), "ts", 15, "assignment to a slice: a slice of a range folds"),
    "ts_boxes_10": Export(Boxes, (R(1, 7, 10),), "ts", 10, "uneven parts, one unused; slices of a part"),
    "ts_branch_in_loop_19": Export(
        BranchInLoop, (R(2, 5), torch.tensor(3)), "ts", 19, "slices in an If in a Loop", scripted=True
    ),
    "ts_cache_dyn_13": Export(
        Cache,
        (R(1, 2, 5, 4), R(1, 2, 2, 4)),
        "ts",
        13,
        "the end of a cache of open length; a window that is wider",
        {"x": {2: "past"}},
    ),
    "ts_causal_conv_dyn_9": Export(
        CausalConvolutions, (R(1, 3, 9),), "ts", 9, "negative ends as attributes, open length", {"x": {2: "length"}}
    ),
    "ts_causal_mask_dyn_16": Export(
        CausalMask, (R(1, 7, 8),), "ts", 16, "a mask of constants cut to an open length: folds", SEQ
    ),
    "ts_conformer_13": Export(ConformerConv, (R(1, 10, 8),), "ts", 13, "GLU in opset 13's spelling"),
    "ts_cross_stage_11": Export(CrossStage, (R(1, 4, 6, 6),), "ts", 11, "a Split of channels, its sizes an attribute"),
    "ts_encoder_dyn_15": Export(Encoder, (R(1, 5, 8),), "ts", 15, "qkv by unbind, open length", SEQ),
    "ts_focus_10": Export(Focus, (R(1, 3, 8, 8),), "ts", 10, "steps of 2 on two axes, a Slice each"),
    "ts_focus_dyn_12": Export(Focus, (R(1, 3, 8, 8),), "ts", 12, "the same with open height and width", IMAGE),
    "ts_functions_17": Export(
        Gates,
        (R(2, 8),),
        "ts",
        17,
        "a function called with two shapes, its bounds from Shape",
        functions=frozenset({Gate}),
    ),
    "ts_gated_mlp_11": Export(GatedMlp, (R(1, 5, 8),), "ts", 11, "halves as slices whose bounds come from Shape"),
    "ts_gru_cell_9": Export(GruCell, (R(2, 3, 6), R(2, 6)), "ts", 9, "chunks in opset 9's spelling"),
    "ts_haar_dyn_12": Export(
        Haar, (R(2, 3, 9),), "ts", 12, "even and odd places of an odd, open length", {"x": {2: "length"}}
    ),
    "ts_halves_13": Export(Halves, (R(3, 6), True), "ts", 13, "a slice in each branch of an If", scripted=True),
    "ts_lstm_9": Export(
        Lstm, (R(2, 3, 4), R(4, 2, 4), R(4, 2, 4)), "ts", 9, "initial states of each layer; the last position"
    ),
    "ts_lstm_cell_10": Export(LstmCell, (R(2, 3, 6), R(2, 6), R(2, 6)), "ts", 10, "chunks of 4 at every step"),
    "ts_patch_merging_11": Export(PatchMerging, (R(1, 4, 4, 4),), "ts", 11, "four interleaved slices of two axes"),
    "ts_rotary_13": Export(Rotary, (R(1, 2, 5, 6), R(5, 6), R(5, 6)), "ts", 13, "rotary halves written out"),
    "ts_rotary_interleaved_20": Export(RotaryInterleaved, (R(1, 2, 5, 6),), "ts", 20, "even and odd channels"),
    "ts_state_space_17": Export(StateSpace, (R(1, 6, 4),), "ts", 17, "parts of every step of a scan"),
    "ts_steps_14": Export(Steps, (R(2, 5), torch.tensor(3)), "ts", 14, "slices in the body of a Loop", scripted=True),
    "ts_temporal_shift_dyn_11": Export(
        TemporalShift, (R(1, 4, 6, 3, 3),), "ts", 11, "five dimensions, two axes cut, open frames", {"x": {1: "frames"}}
    ),
    "ts_types_18": Export(Types, (R(4, 6) * 10,), "ts", 18, "bool, int64, float16 and float64 data"),
    "ts_unet_dyn_16": Export(
        UNet, (R(1, 3, 11, 11),), "ts", 16, "a centre crop whose bounds are shape arithmetic", IMAGE
    ),
    "ts_windows_9": Export(Windows, (R(2, 13),), "ts", 9, "overlapping windows: siblings that do not tile"),
}


if __name__ == "__main__":
    sys.exit(run(EXPORTS, "export_modules.py"))
