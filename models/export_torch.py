"""Export small modules and random-weight transformers to ONNX, deterministically.

    pip install torch==2.13.0 'transformers>=5.23,<5.24' onnx onnxscript
    python models/export_torch.py [--out DIR] [NAME ...]

Each export is one entry of `EXPORTS`: which module, which exporter (`ts`: TorchScript, `dynamo`), which opset, which
dimensions stay open. Weights are random and widths tiny: only the graphs count.
"""

from __future__ import annotations

import argparse
import json
import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import onnx
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


def transformer(kind: str, **settings: object) -> Callable[[], nn.Module]:
    """A random-weight model of `transformers`, its first output alone."""

    def make() -> nn.Module:
        import transformers

        config = transformers.AutoConfig.for_model(kind, **settings)
        config._attn_implementation = "eager"
        model = transformers.AutoModel.from_config(config).eval()

        class First(nn.Module):
            def __init__(self):
                super().__init__()
                self.m = model

            def forward(self, x):
                return self.m(x, use_cache=False)[0] if kind in CACHED else self.m(x)[0]

        return First()

    return make


CACHED = ("llama", "qwen2", "phi")
TINY = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 32}
TOKENS = (torch.arange(16).reshape(1, 16) % 32,)


@dataclass(frozen=True)
class Export:
    """One file: what is exported, how, and what it is there for."""

    module: Callable[[], nn.Module]
    inputs: tuple[object, ...]
    exporter: str
    opset: int
    purpose: str
    open_dims: dict[str, dict[int, str]] = field(default_factory=dict)
    scripted: bool = False


SEQ = {"x": {0: "batch", 1: "seq"}}
IMAGE = {"x": {2: "height", 3: "width"}}
R = torch.rand
EXPORTS: dict[str, Export] = {
    "dynamo_llama": Export(
        transformer("llama", **TINY, num_key_value_heads=1), TOKENS, "dynamo", 20, "rotary halves that tile an axis"
    ),
    "dynamo_qwen2_dyn": Export(
        transformer("qwen2", **TINY, num_key_value_heads=1), TOKENS, "dynamo", 19, "the same with open dimensions", SEQ
    ),
    "dynamo_conformer": Export(ConformerConv, (R(1, 10, 8),), "dynamo", 18, "GLU: a Split into Sigmoid and Mul"),
    "dynamo_encoder": Export(Encoder, (R(1, 5, 8),), "dynamo", 18, "qkv by unbind; class token and patches"),
    "dynamo_flips": Export(Flips, (R(2, 4, 6),), "dynamo", 18, "reversed axes"),
    "dynamo_uneven": Export(Uneven, (R(2, 10, 3),), "dynamo", 20, "uneven parts, one unused; a slice of a part"),
    "dynamo_window_shift": Export(WindowShift, (R(1, 8, 8, 3),), "dynamo", 18, "rolls: two slices and a concat each"),
    "ts_bert_dyn_14": Export(
        transformer("bert", **TINY, max_position_embeddings=32), TOKENS, "ts", 14, "position ids, open length", SEQ
    ),
    "dynamo_phi_dyn": Export(
        transformer("phi", **TINY, num_key_value_heads=2, partial_rotary_factor=0.5),
        TOKENS, "dynamo", 18, "partial rotary: slices of slices", SEQ,
    ),
    "ts_encoder_dyn_15": Export(Encoder, (R(1, 5, 8),), "ts", 15, "qkv by unbind, open length", {"x": {1: "seq"}}),
    "ts_causal_mask_dyn_16": Export(
        CausalMask, (R(1, 7, 8),), "ts", 16, "a mask of constants cut to an open length: folds", {"x": {1: "seq"}}
    ),
    "ts_conformer_13": Export(ConformerConv, (R(1, 10, 8),), "ts", 13, "GLU in opset 13's spelling"),
    "ts_focus_10": Export(Focus, (R(1, 3, 8, 8),), "ts", 10, "steps of 2 on two axes, a Slice each"),
    "ts_focus_dyn_12": Export(Focus, (R(1, 3, 8, 8),), "ts", 12, "the same with open height and width", IMAGE),
    "ts_gated_mlp_11": Export(GatedMlp, (R(1, 5, 8),), "ts", 11, "a Split with its sizes as an attribute"),
    "ts_gru_cell_9": Export(GruCell, (R(2, 3, 6), R(2, 6)), "ts", 9, "chunks in opset 9's spelling"),
    "ts_halves_13": Export(Halves, (R(3, 6), True), "ts", 13, "a slice in each branch of an If", scripted=True),
    "ts_patch_merging_11": Export(PatchMerging, (R(1, 4, 4, 4),), "ts", 11, "four interleaved slices of two axes"),
    "ts_rotary_13": Export(
        Rotary, (R(1, 2, 5, 6), R(5, 6), R(5, 6)), "ts", 13, "rotary halves written out"
    ),
    "ts_rotary_interleaved_20": Export(RotaryInterleaved, (R(1, 2, 5, 6),), "ts", 20, "even and odd channels"),
    "ts_state_space_17": Export(StateSpace, (R(1, 6, 4),), "ts", 17, "parts of every step of a scan"),
    "ts_steps_14": Export(Steps, (R(2, 5), torch.tensor(3)), "ts", 14, "slices in the body of a Loop", scripted=True),
    "ts_types_18": Export(Types, (R(4, 6) * 10,), "ts", 18, "bool, int64, float16 and float64 data"),
    "ts_unet_dyn_16": Export(
        UNet, (R(1, 3, 11, 11),), "ts", 16, "a centre crop whose bounds are shape arithmetic", IMAGE
    ),
}  # fmt: skip


def export(name: str, path: Path) -> None:
    """Write one export, without what exporters leave for debugging."""
    entry = EXPORTS[name]
    torch.manual_seed(0)
    module = entry.module().eval()
    names = ["x", "y", "z"][: len(entry.inputs)]
    if entry.exporter == "ts":
        model = torch.jit.script(module) if entry.scripted else module
        torch.onnx.export(
            model, entry.inputs, str(path), dynamo=False, opset_version=entry.opset, input_names=names,
            dynamic_axes=entry.open_dims or None,
        )  # fmt: skip
    else:
        shapes = None
        if entry.open_dims:
            shapes = tuple(
                {axis: torch.export.Dim(dim, min=2, max=64) for axis, dim in entry.open_dims.get(n, {}).items()}
                for n in names
            )
        inputs = entry.inputs
        if entry.open_dims:
            inputs = tuple(torch.cat((value, value)) for value in inputs)  # a batch of 1 would be taken as fixed
        program = torch.onnx.export(
            module, inputs, dynamo=True, opset_version=entry.opset, input_names=names, dynamic_shapes=shapes,
            verbose=False,
        )  # fmt: skip
        program.save(str(path))
    model = onnx.load(path)
    for node in [*model.graph.node, *(node for function in model.functions for node in function.node)]:
        del node.metadata_props[:]
        node.ClearField("doc_string")
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        del value.metadata_props[:]
    del model.graph.metadata_props[:], model.metadata_props[:]
    onnx.checker.check_model(model, full_check=entry.opset > 9)
    path.write_bytes(model.SerializeToString(deterministic=True))


def main() -> None:
    """Write the exports and what `models.json` says of them."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--out", type=Path, default=Path(__file__).parent)
    arguments.add_argument("names", nargs="*")
    options = arguments.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    index = options.out / "models.json"
    known = {entry["file"]: entry for entry in json.loads(index.read_text())} if index.exists() else {}
    for name in options.names or EXPORTS:
        path = options.out / f"{name}.onnx"
        try:
            export(name, path)
        except Exception as error:
            print(f"{name}: not exported: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            path.unlink(missing_ok=True)
            continue
        entry = EXPORTS[name]
        tensors = dict(zip(("x", "y", "z"), entry.inputs, strict=False))
        known[path.name] = {
            "file": path.name,
            "opset": entry.opset,
            "exporter": {"ts": "TorchScript", "dynamo": "dynamo"}[entry.exporter],
            "input_shapes": {n: list(tensors[n].shape) for n in entry.open_dims},
            "purpose": entry.purpose,
        }
        nodes = [n.op_type for n in onnx.load(path).graph.node]
        print(f"{name}: {path.stat().st_size} bytes, {nodes.count('Slice')} Slice, {nodes.count('Split')} Split")
    index.write_text(json.dumps([known[file] for file in sorted(known)], indent=2) + "\n")


if __name__ == "__main__":
    main()
