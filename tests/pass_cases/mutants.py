# ruff: noqa: E501, T201
"""Whether tests notice when a pass, or one of its rules, does nothing or too much.

    python tests/pass_cases/mutants.py [WORD]      all mutants, or those whose name has the word; prints what survived

Each mutant is a copy of the package with one line changed; the tests of the passes run on it until one fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx_ops

ROOT = Path(__file__).parents[2]
PACKAGE = Path(onnx_ops.__file__).parent
"""Its source, wherever it is installed."""
_REWRITE = "    def rewrite(self, node: ir.Node, opset: int) -> Rewritten | None:"
_HARDEN = "    def rewrite(self, node: ir.Node, opset: int) -> Rewritten | Unfixable | None:"
_APPLY = "    def apply(self, model: ir.Model) -> None:"
DISABLED = {
    "strided": ("expand_strided_slice", _REWRITE),
    "fold": ("fold_slices", _APPLY),
    "merge": ("merge_equal_slices", _REWRITE),
    "gather": ("gather_to_slice", _REWRITE),
    "concat": ("slice_of_concat", _REWRITE),
    "compose": ("compose_slices", _REWRITE),
    "part": ("slice_of_split", _REWRITE),
    "chain": ("shorten_chains", _REWRITE),
    "identity": ("remove_identity_slices", _REWRITE),
    "split": ("split_to_slice", _REWRITE),
    "siblings": ("siblings_to_split", _APPLY),
    "nested": ("split_of_part", _REWRITE),
    "scalar": ("scalar_gather_to_slice", _REWRITE),
    "up": ("move_slices_up", _REWRITE),
    "harden split": ("split_for_directml", _HARDEN),
    "harden slice": ("slice_for_directml", _HARDEN),
    "harden reshape": ("reshape_for_directml", _REWRITE),
}
"""By pass its file, and the line after which it returns at once."""

Mutant = tuple[str, str, str]
RULES: dict[str, Mutant] = {
    "compose through Identity": (
        "passes/compose_slices", "skip_identities(node.inputs[0]) if", "node.inputs[0] if"),
    "compose what becomes a Split": (
        "passes/compose_slices", "if node in self.split_members:", "if False:"),
    "fold 1 and 2": (
        "passes/fold_slices", "if used and len(tensors) == len(used) and may_fold(node, tensors):", "if False:"),
    "fold 4": ("passes/fold_slices", "                self._fold_parameters(node, folded)", "                pass"),
    "fold 5": ("passes/fold_slices", "                self._fold_empty(output)", "                pass"),
    "fold 6": ("passes/fold_slices", "                self._fold_shapes_of(output)", "                pass"),
    "fold floats that are computed": (
        "passes/folding", "_EXACT if all(tensor.dtype in _INTEGERS for tensor in tensors) else MOVING", "_EXACT"),
    "fold by a start of a Shape": ("passes/fold_slices", 'read_attribute(shape, "start", 0)', "0"),
    "fold in functions": ("passes/fold_slices", "        for function, body in walk_functions(model, self.value_info):",
        "        for function, body in ():"),
    "merge 1": ("passes/merge_equal_slices", "tuple(sorted(read_slice(node, opset, shape).items()))", "node"),
    "merge 2": ("passes/merge_equal_slices", "            return read_split(node, opset, shape)", "            return node"),
    "merge 3": ("passes/merge_equal_slices", "        return read_gather(node, opset, shape)", "        return node"),
    "merge 4": ("passes/merge_equal_slices", "        part = self._parts.setdefault((*where, *found), node.outputs[0])",
        "        part = node.outputs[0]"),
    "merge 5": ("passes/merge_equal_slices", "if is_dropped else None", "if False else None"),
    "merge two Shapes": ("passes/merge_equal_slices", "    if shape is None or not", "    if True or not"),
    "merge across graphs": ("passes/merge_equal_slices", "self._seen.setdefault((id(node.graph),", "self._seen.setdefault(("),
    "concat 1": ("passes/slice_of_concat", "        if not inside:", "        if True:"),
    "concat 2": ("passes/slice_of_concat", '        if node.op_type == "Split":', '        if node.op_type == "Split" and None:'),
    "concat with a shift": ("passes/slice_of_concat", "shift(kept, -start)", "kept"),
    "identity 1 and 2": ("passes/remove_identity_slices", "            if cut:\n", "            if True:\n"),
    "identity 3": ("passes/remove_identity_slices", "            if len(node.outputs) != 1:", "            if True:"),
    "identity 4": ("passes/remove_identity_slices", "        if not any(map(is_used, node.outputs)):", "        if False:"),
    "identity 5": ("passes/remove_identity_slices", "if cut and len(cut) < len(entries):", "if False:"),
    "chain 2": ("passes/slice_chain", "            if self.kept_size(axis) == 1 and at", "            if False and at"),
    "chain 3": ("passes/shorten_chains", "        if index is not None:", "        if False:"),
    "siblings 1": ("passes/siblings", "    return whole if saved > 0 else None", "    return None"),
    "siblings 2": ("passes/siblings", "    if more > 0 and (gap", "    if False and (gap"),
    "siblings wide gaps": ("passes/siblings", "<= _MAX_GAP_BYTES * saved", ">= 0"),
    "siblings few Gathers": ("passes/siblings", "only_single and len(nodes) < _MIN_GATHERS", "False"),
    "nested 1": ("passes/split_of_part", '        if outer.op_type == "Split":', '        if outer.op_type == "Split" and None:'),
    "nested 2": ("passes/split_of_part", "        if found is None or data is None:", "        if True:"),
    "strided dropped at the end": ("passes/expand_strided_slice", "INT64_MAX if begin == -1 else begin + 1", "begin + 1"),
    "strided to the greatest": ("passes/expand_strided_slice", "    if step < 0 and end in CONTESTED_ENDS:", "    if False:"),
    "strided from below": ("passes/expand_strided_slice", "entry if size is None or entry.step > 0 else", "entry if True else"),
    "up 1": ("passes/cut_inputs", '    "Transpose": _cut_transpose,\n', ""),
    "up 2 Unsqueeze": ("passes/cut_inputs", '    "Unsqueeze": _cut_view,\n', ""),
    "up 2 Squeeze": ("passes/cut_inputs", '    "Squeeze": _cut_view,\n', ""),
    "up 3": ("passes/cut_inputs", '    "Reshape": _cut_reshape,\n', ""),
    "up 4": ("passes/cut_inputs", "    **dict.fromkeys(_ELEMENTWISE.split(), _cut_elementwise),\n", ""),
    "up 5": ("passes/cut_inputs", '    "Expand": _cut_expand,\n', ""),
    "up more bytes": ("passes/move_slices_up", "        if after >= before:", "        if False:"),
    "up read elsewhere": ("passes/move_slices_up", "value.is_graph_output() or count_uses(value) != 1", "False"),
    "up old broadcasts": ("passes/cut_inputs", "any(name in node.attributes for name in _BROADCAST)", "False"),
    "up without broadcasts": ("passes/cut_inputs", "opset < _BROADCAST_OPSET and", "False and"),
    "harden split 1": ("passes/split_for_directml", "        if is_gated(node.outputs):", "        if False:"),
    "harden split 2": ("passes/split_for_directml", "if parts is not None and 0 in parts.sizes:", "if False:"),
    "harden split unread": ("passes/split_for_directml", "        if not any(map(is_used, node.outputs)):", "        if False:"),
    "harden slice 1": ("passes/slice_for_directml", "[STEPS_WITHOUT_AXES] if len", "[STEPS_WITHOUT_AXES] if False and len"),
    "harden slice 2": ("passes/slice_for_directml", "is_below if entry.step < 0 else", "False if entry.step < 0 else"),
    "harden slice 3": ("passes/slice_for_directml", "else entry.start <= _INT32_MIN and entry.end < 0", "else False"),
    "harden slice 4": ("passes/slice_for_directml", "if empty is not None and dtype is not None:", "if False:"),
    "harden reshape 1": ("passes/reshape_for_directml", "return -1 in sizes and 0 not in sizes", "return -1 in sizes"),
    "harden reshape 2": ("passes/reshape_for_directml", 'producer.op_type != "Concat"', "True"),
    "contested by the greatest": ("contested", "step < 0 and end in CONTESTED_ENDS", "False"),
    "contested steps": ("contested", "    if is_stepped and", "    if False and"),
    "contested last part": ("contested", "EMPTY_LAST_PART if spec.sizes and spec.sizes[-1] == 0 else None", "None"),
    "contested below": ("contested", "if step < 0 and size and start < -size:", "if False:"),
    "contested by what is computed": ("passes/value_info", "    mark_computed(model)\n", ""),
    "contested by sizes": ("passes/value_info", "        if not mark_by_sizes(model, found.sizes):", "        if True:"),
    "contested in copies": ("passes/probe", "    for node in [*marked, *filter", "    for node in [*filter"),
    "declared behind contested": ("passes/probe", "    if marked:  #", "    if False:  #"),
    "contested is hardened": ("passes/slice_for_directml", "        if disagreement is not None:", "        if False:"),
    "open attributes in copies": (
        "passes/probe", "*filter(has_open_attribute, all_nodes(probe.graph))", ""),
    "references are defaults": ("nodes", "if attribute is not None and attribute.is_ref():", "if False:"),
    "defaults are constants": ("defaults", "        if value.is_graph_input()\n", "        if False\n"),
    "defaults of old files are none": ("defaults", "if graph is not model.graph or model.ir_version", "if True or model.ir_version"),
    "defaults in another order": ("defaults", "[*(value for value in values if value in there), *left]", "[*left, *returning]"),
    "gates by replacement": ("passes/base", "        if would_be_gated(values):", "        if False:"),
    "gates through Identity": ("passes/gating", '            elif is_operator(node, "Identity"):', "            elif False:"),
    "nodes made for nothing": ("passes/shorten_chains", "            detach(new)\n", ""),
    "sizes of the data": (
        "passes/base", "        if sizes is not None:\n            self.value_info.sizes[value]",
        "        if sizes is None:\n            self.value_info.copy(value, data)\n        else:\n"
        "            self.value_info.sizes[value]"),
    "siblings of before": ("passes/base", "            self.analysis.forget()\n", "            pass\n"),
    "malformed nodes": ("passes/base", "if not (is_strided_slice(node) or has_its_values(node)):", "if False:"),
}  # fmt: skip
"""By what it is about the file, a piece of it, and what stands there instead."""
TESTS = (
    "test_conditions", "test_contested", "test_harden_directml", "test_gating", "test_old_operators", "test_rewrite",
    "test_malformed", "test_function_attributes",
)  # fmt: skip


FIRST = {
    "contested": "onnx_ops/passes/test_contested",
    "gates": "onnx_ops/passes/test_gating",
    "up ": "onnx_ops/passes/test_old_operators",
    "harden": "onnx_ops/passes/test_harden_directml",
    "defaults": "onnx_ops/test_defaults",
    "references": "onnx_ops/passes/test_function_attributes",
    "attributes": "onnx_ops/passes/test_function_attributes",
    "for nothing": "onnx_ops/passes/test_rewrite",
    "fold ": "onnx_ops/passes/test_rewrite",
    "merge ": "onnx_ops/passes/test_rewrite",
    "of the data": "onnx_ops/passes/test_rewrite",
    "malformed": "onnx_ops/passes/test_malformed",
    "unread": "onnx_ops/passes/test_rewrite",
}
"""By a word in the name of a mutant the tests that are likely to notice it."""


def mutants() -> dict[str, Mutant]:
    """All mutants by their names."""
    disabled = {
        f"{name} disabled": (f"passes/{file}", line, f"{line}\n        return {'' if line == _APPLY else 'None'}")
        for name, (file, line) in DISABLED.items()
    }
    return disabled | RULES


def survives(name: str, mutant: Mutant, folder: Path) -> bool:
    """Whether all tests pass on a mutant."""
    file, piece, instead = mutant
    package = folder / "onnx_ops"
    shutil.copytree(PACKAGE, package)
    path = package / f"{file}.py"
    text = path.read_text()
    assert text.count(piece) == 1, f"{file}: {text.count(piece)} times {piece!r}"
    path.write_text(text.replace(piece, instead))
    likely = [test for word, test in FIRST.items() if word in name]
    tests = dict.fromkeys([*likely, *(f"onnx_ops/passes/{test}" for test in TESTS), "onnx_ops/test_defaults"])
    for test in tests:
        command = [sys.executable, "-P", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", f"tests/{test}.py"]
        code = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
            capture_output=True,
            check=False,
        ).returncode
        if code == 1:
            print(f"  by {test}", flush=True)
            return False
        assert code == 0, f"{test}: pytest ended with {code}"
    return True


def main() -> int:
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    survivors = []
    for name, mutant in mutants().items():
        if word in name:
            print(name, flush=True)
            with tempfile.TemporaryDirectory() as folder:
                if survives(name, mutant, Path(folder)):
                    survivors.append(name)
                    print("  SURVIVED", flush=True)
    print(f"{len(survivors)} survived: {', '.join(survivors) or 'none'}")
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main())
