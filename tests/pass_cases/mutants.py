# ruff: noqa: E501, T201
"""Whether tests notice when a pass, or a rule of it or of what it builds on, does nothing or too much.

    python tests/pass_cases/mutants.py [WORD]      all mutants, or those whose name has the word; prints what survived

Each mutant is a copy of its package with one line changed; the tests that belong to it run until one fails.
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
PACKAGES = Path(onnx_ops.__file__).parents[1]
"""The folder with the source of all packages, wherever they are installed."""
_REWRITE = "    def rewrite(self, node: ir.Node, opset: int) -> Rewritten | None:"
_APPLY = "    def apply(self, model: ir.Model) -> None:"
DISABLED = {
    "strided": ("expand_strided_slice", _REWRITE),
    "fold": ("fold_slices", _APPLY),
    "merge": ("merge_equal_slices", _REWRITE),
    "concat": ("slice_of_concat", _REWRITE),
    "compose": ("compose_slices", "        source = self.skip_identities(node.inputs[0]) if node.inputs else None"),
    "part": ("compose_slices", "        part = self.skip_identities(node.inputs[0]) if node.inputs else None"),
    "chain": ("shorten_chains", _REWRITE),
    "identity": ("remove_identity_slices", _REWRITE),
    "split": ("replace_by_slice", "        read = [i for i, output in enumerate(node.outputs) if is_used(output)]"),
    "siblings": ("siblings_to_split", _APPLY),
    "nested": ("split_of_part", _REWRITE),
    "up": ("move_slices_up", _REWRITE),
    "harden split": ("slicing_for_directml", "        defect = _find_unfixable(node, opset, shape)"),
    "harden slice": (
        "slicing_for_directml",
        "        # A replacement of such a Slice would compute something else on an engine.",
    ),
    "harden reshape": ("reshape_for_directml", _REWRITE),
}
"""By pass its file, and the line after which it returns at once."""

Mutant = tuple[str, str, str]
RULES: dict[str, Mutant] = {
    "compose through Identity": (
        "passes/compose_slices", "source = self.skip_identities(node.inputs[0]) if", "source = node.inputs[0] if"),
    "compose what becomes a Split": (
        "passes/compose_slices", "first.inputs[0] is None:\n            return None\n        if node in self.split_members", "first.inputs[0] is None:\n            return None\n        if False"),
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
    "concat 1": ("passes/slice_of_concat", "        if place is None:", "        if True:"),
    "concat 2": ("passes/slice_of_concat", '        if node.op_type == "Split":', '        if node.op_type == "Split" and None:'),
    "concat with a shift": ("passes/slice_of_concat", "shift(kept, -start)", "kept"),
    "identity 1 and 2": ("passes/remove_identity_slices", "            if cut:\n", "            if True:\n"),
    "identity 3": ("passes/remove_identity_slices", "            if len(node.outputs) != 1:", "            if True:"),
    "identity 4": ("passes/remove_identity_slices", "        if not any(map(is_used, node.outputs)):", "        if False:"),
    "identity 5": ("passes/remove_identity_slices", "if cut and len(cut) < len(entries):", "if False:"),
    "gather": ("passes/replace_by_slice", "len(listed.shape) != 1:", "True:"),
    "scalar": ("passes/replace_by_slice", "len(listed.shape) != 0:", "True:"),
    "chain 2": ("passes/shorten_chains", "            if self.kept_size(axis) == 1 and at", "            if False and at"),
    "chain 3": ("passes/shorten_chains", "        if index is not None:", "        if False:"),
    "siblings 1": ("passes/siblings", "if not chosen or is_whole[0]:", "if True:"),
    "branches of different sizes": ("passes/rewrite", "if opset >= _UNEQUAL_BRANCHES_OPSET or", "if True or"),
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
    "harden split 1": ("passes/slicing_for_directml", "        if is_gated(node.outputs):", "        if False:"),
    "harden split 2": ("passes/slicing_for_directml", "if parts is not None and 0 in parts.sizes:", "if False:"),
    "harden split unread": ("passes/slicing_for_directml", "        if not any(map(is_used, node.outputs)):", "        if False:"),
    "harden slice 1": ("passes/slicing_for_directml", "[STEPS_WITHOUT_AXES] if len", "[STEPS_WITHOUT_AXES] if False and len"),
    "harden slice 2": ("passes/slicing_for_directml", "is_below if entry.step < 0 else", "False if entry.step < 0 else"),
    "harden slice 3": ("passes/slicing_for_directml", "else entry.start <= _INT32_MIN and entry.end < 0", "else False"),
    "harden slice 4": ("passes/slicing_for_directml", "if empty is not None and dtype is not None:", "if False:"),
    "harden reshape 1": ("passes/reshape_for_directml", " or 0 in parts", ""),
    "harden reshape 2": ("passes/reshape_for_directml", 'producer.inputs if is_operator(producer, "Concat") else (shape,)', "(shape,)"),
    "harden reshape 3": ("passes/reshape_for_directml", "if all(isinstance(part, int) for part in parts):", "if True:"),
    "harden reshape 4": ("passes/reshape_for_directml", "_build_known_size(node, data, parts[:position]) or", ""),
    "harden reshape 5": ("passes/reshape_for_directml", 'add("Shape", data), is_zero', 'add("Shape", data), one'),
    "invalid names of sizes": ("passes/invalid_nodes", "if sizes[axis] is None:", "if False:"),
    "invalid constants": ("passes/invalid_nodes", "            _set_constants(twin, facts)\n", ""),
    "invalid nodes that are rewritten": ("passes/base", "if node in self.value_info.invalid:", "if False:"),
    "contested by the greatest": ("model/contested", "step < 0 and end in CONTESTED_ENDS", "False"),
    "contested steps": ("model/contested", "    if is_stepped and", "    if False and"),
    "contested last part": ("model/contested", "EMPTY_LAST_PART if spec.sizes and spec.sizes[-1] == 0 else None", "None"),
    "contested below": ("model/contested", "if step < 0 and size and start < -size:", "if False:"),
    "contested by what is computed": ("passes/value_info", "    mark_computed(model)\n", ""),
    "contested by sizes": ("passes/value_info", "        if not mark_by_sizes(model, found.sizes):", "        if True:"),
    "contested in copies": ("passes/contested_nodes", "    for node in [*marked, *filter", "    for node in [*filter"),
    "declared behind contested": ("passes/contested_nodes", "    if marked:  #", "    if False:  #"),
    "contested is hardened": ("passes/slicing_for_directml", "    if disagreement is None or not {", "    if True or not {"),
    "open attributes in copies": (
        "passes/contested_nodes", "*filter(has_open_attribute, all_nodes(probe.graph))", ""),
    "defaults are constants": ("model/defaults", "        if value.is_graph_input()\n", "        if False\n"),
    "defaults of old files are none": ("model/defaults", "if graph is not model.graph or model.ir_version", "if True or model.ir_version"),
    "defaults in another order": ("model/defaults", "[*(value for value in values if value in there), *left]", "[*left, *returning]"),
    "gates by replacement": ("passes/base", "        if would_be_gated(values, self.edits.identities):", "        if False:"),
    "gates through Identity": ("passes/gating", '            elif is_operator(node, "Identity"):', "            elif False:"),
    "nodes made for nothing": ("passes/shorten_chains", "            detach(new)\n", ""),
    "sizes of the data": (
        "passes/base", "        if sizes is not None:\n            self.value_info.sizes[value]",
        "        if sizes is None:\n            self.value_info.copy_entry(value, data)\n        else:\n"
        "            self.value_info.sizes[value]"),
    "siblings of before": ("passes/base", "            self.analysis.forget()\n", "            pass\n"),
    "malformed nodes": ("passes/base", "if not (is_strided_slice(node) or has_its_values(node)):", "if False:"),
}  # fmt: skip
"""By what it is about the file, a piece of it, and what stands there instead."""
OTHERS: dict[str, Mutant] = {
    "exact old broadcasts": ("onnx_ops/infer/exact", "opset < _BROADCAST_OPSET and", "False and"),
    "exact NaNs": ("onnx_ops/infer/exact", "bool(np.isnan(array).any())", "False"),
    "exact divisions": ("onnx_ops/infer/exact", "return not divisor.all() or", "return"),
    "exact divisions by -1": ("onnx_ops/infer/exact", "(divisor == -1)", "(divisor == -3)"),
    "exact halves": ("onnx_ops/infer/exact", "all(array.dtype in", "all(array.dtype == np.float16 or array.dtype in"),
    "exact exponentials": ("onnx_ops/infer/exact", "op_type in _OF_FLOATS and", "True and"),
    "exact random integers": ("onnx_ops/infer/exact", "op_type in _OF_INTEGERS and", "True and"),
    "exact casts to halves": ("onnx_ops/infer/exact", 'dtype.kind not in "iub" and', "False and"),
    "exact casts of NaN": ("onnx_ops/infer/exact", "    if np.isnan(array).any():", "    if False:"),
    "exact casts to infinity": ("onnx_ops/infer/exact", "bool(np.array_equal(", "bool(True or np.array_equal("),
    "exact casts beyond 32 bits": ("onnx_ops/infer/exact", "if not _INT32.min <= least <= greatest <= _INT32.max:", "if False:"),
    "exact casts to narrow": ("onnx_ops/infer/exact", " and int(greatest) <= limits.max", ""),
    "exact casts to unsigned": ("onnx_ops/infer/exact", "limits.min <= int(least) and", ""),
    "exact Where": ("onnx_ops/infer/exact", "_has_nan(array) or _has_negative_zero(array)", "False"),
    "exact NaN of Where": ("onnx_ops/infer/exact", "_has_nan(array) or _has", "_has"),
    "exact NonZero": ("onnx_ops/infer/exact", "arrays[0].ndim > 0", "True"),
    "exact reductions of nothing": ("onnx_ops/infer/exact", "if op_type in _REDUCING and", "if False and"),
    "exact smallest zero": ("onnx_ops/infer/exact", 'if op_type in ("Min", "Max") and', "if False and"),
    "exact sums": ("onnx_ops/infer/exact", 'if op_type in ("ReduceSum", "ReduceProd"):', "if False:"),
    "exact products": ("onnx_ops/infer/exact", "np.maximum(sizes, 1).prod()", "0"),
    "exact long integers": ("onnx_ops/infer/exact", "or all(_fits_int32(array) for array in arrays if", "or True or all(array for array in arrays if"),
    "exact of nothing": ("onnx_ops/infer/exact", "not arrays or", ""),
    "exact ranges of integers": ("onnx_ops/infer/exact", ' or bound.dtype.kind in "iu"', ""),
    "exact ranges of whole floats": ("onnx_ops/infer/exact", "number.is_integer() and", "False and"),
    "exact ranges of great floats": ("onnx_ops/infer/exact", " and abs(number) < _EXACT_INTEGERS_END", ""),
    "exact ranges without steps": ("onnx_ops/infer/exact", " or numbers[2] == 0", ""),
    "exact ranges that are clear": ("onnx_ops/infer/exact", "> _CLEAR *", "> 0 *"),
    "exact ranges that are long": ("onnx_ops/infer/exact", " * max(1.0, abs(count))", ""),
    "constants of other domains": ("onnx_ops/passes/fold_constants", "node.domain not in STANDARD_DOMAINS or", ""),
    "constants that are excluded": ("onnx_ops/passes/fold_constants", " or node.op_type in _EXCLUDED", ""),
    "constants of bodies": ("onnx_ops/passes/fold_constants", "attribute.type in _GRAPHS for", "False for"),
    "constants of constants alone": ("onnx_ops/passes/fold_constants", "value.producer() in foldable or", ""),
    "constants of weights": ("onnx_ops/passes/fold_constants", "tensor.nbytes <= MAX_READ_BYTES and", ""),
    "constants of strings": ("onnx_ops/passes/fold_constants", " and tensor.dtype != ir.DataType.STRING", ""),
    "constants that are strings": ("onnx_ops/passes/fold_constants", "dtype == ir.DataType.STRING or", ""),
    "constants of no known size": ("onnx_ops/passes/fold_constants", "return not output.name", "return True"),
    "constants that are large": ("onnx_ops/passes/fold_constants", "<= MAX_BYTES * 8", ">= 0"),
    "constants that are too many": ("onnx_ops/passes/fold_constants", "made > MAX_ALL_BYTES or", ""),
    "constants of too many": ("onnx_ops/passes/fold_constants", " or read > MAX_ALL_READ_BYTES", ""),
    "constants of all runs": ("onnx_ops/passes/fold_constants", "self._made, self._read = made, read", "pass"),
    "constants that are known": ("onnx_ops/passes/fold_constants", "if all(value in known", "if True or all(value in known"),
    "constants of halves": ("onnx_ops/passes/fold_constants", "frozenset((ir.DataType.FLOAT16, ir.DataType.BFLOAT16))", "frozenset()"),
    "constants of moved halves": ("onnx_ops/passes/fold_constants", "node.op_type in MOVING or", ""),
    "hidden by domain": ("onnx_ops/passes/hidden_nodes", "if node.domain not in STANDARD_DOMAINS or", "if"),
    "hidden by drawing": ("onnx_ops/passes/hidden_nodes", " or _draws(node)", ""),
    "hidden by one name": ("onnx_ops/passes/hidden_nodes", "{_HIDDEN}{number}_", "{_HIDDEN}_"),
    "hidden by rounding": ("onnx_ops/passes/hidden_nodes", "hidden.update(dict.fromkeys(_computed_differently(nodes, found)))", "pass"),
    "hidden by what onnx infers": ("onnx_ops/passes/hidden_nodes", "is_mistaken = opset == _WRONGLY_INFERRED_OPSET and not is_kept", "is_mistaken = False"),
    "hidden Flattens": ("onnx_ops/passes/hidden_nodes", " or not _is_sure_flatten(node, dims)", ""),
    "hidden Flattens of one value": ("onnx_ops/passes/hidden_nodes", "data in flattened or", ""),
    "hidden masks": ("onnx_ops/passes/hidden_nodes", " or has_mask or", " or"),
    "hidden scalars": ("onnx_ops/passes/hidden_nodes", "and not _dims(node.inputs[0], facts):", "and False:"),
    "hidden sequences": ("onnx_ops/passes/hidden_nodes", "opset < _SEQUENCE_OPSETS[node.op_type]", "False"),
    "hidden as open": ("onnx_ops/passes/hidden_nodes", "if is_open or", "if"),
    "hidden as joining nothing": ("onnx_ops/passes/hidden_nodes", "or joins_nothing or", "or"),
    "hidden by sizes": ("onnx_ops/passes/hidden_nodes", " or is_standard(node, *_SIZES)", ""),
    "hidden divisions": ("onnx_ops/passes/hidden_nodes", " and not may_fail_to_divide(divisor)", ""),
    "hidden If": ("onnx_ops/passes/hidden_nodes", '"If"', '"Loop"'),
    "hidden as different": ("onnx_ops/passes/hidden_nodes", "_ALIKE = OPERATORS - _DIFFERENT", "_ALIKE = OPERATORS"),
    "hidden as moved differently": ("onnx_ops/passes/hidden_nodes", "}) - _DIFFERENT", "})"),
    "hidden as other operators": ("onnx_ops/passes/hidden_nodes", "if not is_standard(node, *_ALIKE", "if False and not is_standard(node, *_ALIKE"),
    "hidden as not known": ("onnx_ops/passes/hidden_nodes", "if all(found.get(output", "if True or all(found.get(output"),
    "hidden as rounded": ("onnx_ops/passes/hidden_nodes", "node.op_type in ROUNDED_ALIKE and", ""),
    "first look at what cuts": ("onnx_ops/passes/first_look", "        if op_type in _STARTS:", "        if False:"),
    "first look at chains": ("onnx_ops/passes/first_look", " or inputs[0] in views", ""),
    "first look at inputs": ("onnx_ops/passes/first_look", ' - (op_type == "Identity")', ""),
    "first look at allowzero": ("onnx_ops/passes/first_look", 'attribute.name == "allowzero"', "False"),
    "first look at order": ("onnx_ops/passes/first_look", "found.is_sorted\n        and", ""),
    "first look at plain tensors": ("onnx_ops/passes/first_look", "        and found.is_plain\n", ""),
    "first look at files": ("onnx_ops/passes/first_look", "        and not found.has_external_data\n", ""),
    "first look at sizes": ("onnx_ops/passes/first_look", "        and not found.has_negative_sizes\n", ""),
    "first look at domains": ("onnx_ops/passes/first_look", "entry.domain != STANDARD_DOMAINS[1]", "True"),
    "axis below": ("sliceport/slicing/axis", "start is not None and start < -size", "False"),
    "axes merged": ("sliceport/slicing/axis", "== len(inner) * inner.step", ">= len(inner) * inner.step"),
    "axes of strides": ("sliceport/slicing/axis", "contiguous is None or contiguous[axis]", "True"),
    "masks before others": ("sliceport/slicing/masks", "not (hides or adds)", "not hides"),
    "regions that tile": ("sliceport/slicing/region", "selected.step != 1\n            or", ""),
    "regions that keep axes": ("sliceport/slicing/region", "!= tuple(map(len, regions[i].ranges))", "is None"),
    "slices of open sizes": ("sliceport/slicing/spec", "min(self.end, self.start +", "max(self.end, self.start +"),
    "splits with a rest": ("sliceport/slicing/spec", "count(-1) == 1", "count(-1) >= 1"),
    "tilings of the most": ("sliceport/slicing/tiling", "elements + len(runs[key])", "elements"),
    "lower what is used": ("sliceport/directml/lower", "[cut for cut in rest if cut.used] or rest", "rest"),
    "lower to Split": ("sliceport/directml/lower", "    if split is not None:", "    if False:"),
    "lower siblings beside views": ("sliceport/directml/lower", "{} if options.views else group", "group"),
    "lower siblings of a type": ("sliceport/directml/lower", "    if first.element not in ELEMENT_BITS:", "    if False:"),
    "lower an element again": ("sliceport/directml/lower", "key = (cut.region, element,", "key = (cut.region, '',"),
    "lower an input again": ("sliceport/directml/lower", "element, source.strides, strides)\n    if", "element, None, strides)\n    if"),
    "lower an output again": ("sliceport/directml/lower", "source.strides, strides)\n    if", "source.strides, None)\n    if"),
    "lower in order": ("sliceport/directml/lower", "[cuts[i] for i in order]", "list(cuts)"),
    "lower what no buffer holds": ("sliceport/directml/lower", "> _MAX_ELEMENTS", "< 0"),
    "a crash that is not tried again": ("sliceport/sandbox/supervisor", "    return call(function, *args, is_isolated=True, **options)", "    return None"),
    "a child that outlives its supervisor": ("sliceport/sandbox/child", "    _die_with_parent(parent)\n", ""),
    "scratch that is left": ("sliceport/cli/work", "            remove_scratch(Path(work.output).parent, owner)", "            pass"),
}  # fmt: skip
"""The same of other packages, by whole paths."""
_OF_PASSES = (
    "test_conditions", "test_contested", "test_harden_directml", "test_gating", "test_old_operators", "test_rewrite",
    "test_malformed", "test_function_attributes",
)  # fmt: skip
_OF_SLICING = (
    "region", "axis_slice", "axis", "fewest_axes", "check", "spec", "hypothesis", "selecting_hypothesis",
    "cover_exhaustive",
)  # fmt: skip
TESTS = {
    "onnx_ops/infer/exact": (
        "onnx_ops/infer/test_exact",
        "onnx_ops/passes/test_fold_constants",
        "onnx_ops/infer/test_propagate",
    ),
    "onnx_ops/passes/first_look": ("onnx_ops/passes/test_first_look",),
    "onnx_ops/passes/fold_constants": ("onnx_ops/passes/test_fold_constants", "onnx_ops/passes/test_simplify"),
    "onnx_ops/passes/hidden_nodes": ("onnx_ops/passes/test_simplify",),
    "onnx_ops/": (*(f"onnx_ops/passes/{test}" for test in _OF_PASSES), "onnx_ops/model/test_defaults"),
    "sliceport/slicing/": tuple(f"sliceport/slicing/test_{name}" for name in _OF_SLICING),
    "sliceport/directml/": ("sliceport/directml/test_lower",),
    "sliceport/sandbox/": ("sliceport/cli/test_work",),
    "sliceport/cli/": ("sliceport/cli/test_work",),
}
"""By how the path of a file begins, the tests that notice what changes in it."""
FIRST = {
    "contested": "onnx_ops/passes/test_contested",
    "gates": "onnx_ops/passes/test_gating",
    "up ": "onnx_ops/passes/test_old_operators",
    "harden": "onnx_ops/passes/test_harden_directml",
    "defaults": "onnx_ops/model/test_defaults",
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
    """Return all mutants by their names."""
    disabled = {
        f"{name} disabled": (f"passes/{file}", line, f"{line}\n        return {'' if line == _APPLY else 'None'}")
        for name, (file, line) in DISABLED.items()
    }
    of_passes = disabled | RULES
    return {name: (f"onnx_ops/{file}", old, new) for name, (file, old, new) in of_passes.items()} | OTHERS


def survives(name: str, mutant: Mutant, folder: Path) -> bool:
    """Whether all tests pass on a mutant."""
    file, piece, instead = mutant
    package = file.partition("/")[0]
    shutil.copytree(PACKAGES / package, folder / package)
    path = folder / f"{file}.py"
    text = path.read_text()
    assert text.count(piece) == 1, f"{file}: {text.count(piece)} times {piece!r}"
    path.write_text(text.replace(piece, instead))
    likely = [test for word, test in FIRST.items() if word in name]
    belonging = next(tests for start, tests in TESTS.items() if file.startswith(start))
    tests = dict.fromkeys([*likely, *belonging])
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
