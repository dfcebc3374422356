"""The cases in the docstrings of passes: a pass changes the models under `Fires:`, and no model under `Stays:`.

A case has one of these forms. The name, what is in parentheses and the reason that the pass reports may be left out.
`L` and `M` are the least and the greatest int64; for the rest see `build_model`.

    - name (opset 9): `y = Gather(x[9], [3, 2])`: "needs step -1"
    - name (outputs y0 y1): `y0 = Gather(x[2, n], 0); y1 = Gather(x, 1)`
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from functools import cached_property

import onnx
from pass_cases.examples import OPSET, build_model

from onnx_ops.passes import PASSES
from onnx_ops.passes.base import SlicingPass

_CASE = re.compile(
    r"(?P<name>[^`]*?)(?: \(opset (?P<opset>\d+)\))?(?: \(outputs (?P<outputs>[\w ]+)\))?(?:: )?"
    r'`(?P<text>[^`]+)`(?:: "(?P<reason>[^"]+)")?'
)


@dataclass(frozen=True)
class PassCase:
    """A model for a pass; it is built when a test asks for it."""

    kind: type[SlicingPass]
    text: str
    opset: int
    outputs: str
    reason: str

    @cached_property
    def proto(self) -> onnx.ModelProto:
        return build_model(self.text, opset=self.opset, outputs=self.outputs)


def read_cases(title: str) -> dict[str, PassCase]:
    """Return the cases under a title of the docstrings, by names that begin with the name of the pass."""
    cases = {}
    for kind in PASSES.values():
        _, _, rest = inspect.cleandoc(kind.__doc__ or "").partition(f"\n{title}:\n")
        for entry in re.split(r"^ +- ", rest.partition("\n\n")[0], flags=re.MULTILINE)[1:]:
            case = _CASE.fullmatch(" ".join(entry.split()))
            assert case, (
                f"{kind.__module__}, {title} of {kind.__name__}: the module {__name__} describes the form, not: {entry}"
            )
            name = f"{kind.name} {case['name']}".strip()
            assert name not in cases, (
                f"{kind.__module__}, {title} of {kind.__name__}: two cases have the name {case['name']!r}"
            )
            outputs, reason = case["outputs"] or "", case["reason"] or ""
            cases[name] = PassCase(kind, case["text"], int(case["opset"] or OPSET), outputs, reason)
    return cases


FIRES, STAYS = read_cases("Fires"), read_cases("Stays")


def sizes(proto: onnx.ModelProto) -> tuple[int, ...]:
    return tuple(dim.dim_value or 5 for dim in proto.graph.input[0].type.tensor_type.shape.dim)
