"""Models without the nodes of custom operators, which onnxruntime may be unable to run."""

from __future__ import annotations

from copy import deepcopy

import onnx

from onnx_ops.model.domains import STANDARD_DOMAINS, STRIDED_SLICE_DOMAIN
from onnx_ops.model.read import CheckedModel, check_model


def leave_out_custom_nodes(checked: CheckedModel) -> CheckedModel | None:
    """Return a model whose inputs replace the outputs of custom nodes, and whose outputs include their inputs.

    Custom nodes are nodes of the main graph from other domains than ONNX's own, without a function in the model.
    Return None if there is no custom node, or if the type of an output is not known.
    """
    graph = checked.proto.graph
    domains = {*STANDARD_DOMAINS, STRIDED_SLICE_DOMAIN}
    functions = {(function.domain, function.name) for function in checked.proto.functions}
    others = [node for node in graph.node if node.domain not in domains]
    custom = [node for node in others if (node.domain, node.op_type) not in functions]
    types = {value.name: value.type for value in (*graph.value_info, *graph.output)}
    written = sorted(name for node in custom for name in node.output if name)
    if not custom or not types.keys() >= set(written):
        return None
    proto = deepcopy(checked.proto)
    # The change of the model may have renamed the inputs of custom nodes, so their copies are named after the outputs.
    read = {f"{node.output[0]}, input {i}": name for node in custom for i, name in enumerate(node.input) if name}
    for node in custom:
        proto.graph.node.remove(node)
    for copy, name in sorted(read.items()):
        proto.graph.node.append(onnx.helper.make_node("Identity", [name], [copy], copy))
        proto.graph.output.append(onnx.ValueInfoProto(name=copy))
    proto.graph.input.extend(onnx.ValueInfoProto(name=name, type=types[name]) for name in written)
    return check_model(proto, checked.base_dir, checked.path)
