"""Models of more nodes than are rewritten."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import sliceport
from onnx_ops.format import MAX_NODES
from sliceport.cli.main import main

SLICES = "a = Slice(x, i, j) b = Slice(a, i, j) y = Relu(b)"


def write_model(file: Path, body: str) -> Path:
    onnx.save(
        onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 18]>
            g (float[4] x) => (float[n] y) <int64[1] i = {{0}}, int64[1] j = {{3}}> {{ {body} }}"""),
        file,
    )
    return file


@pytest.mark.parametrize("command", ["rewrite", "harden"])
def test_a_model_of_more_nodes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    model, out = write_model(tmp_path / "m.onnx", SLICES), tmp_path / "o.onnx"
    assert main([command, str(model), "-o", str(out), "--max-nodes", "2"]) == 2
    assert "the model has 3 nodes, but may have at most 2; --max-nodes 0 sets no limit." in capsys.readouterr().err
    assert not out.exists()
    for most in ("3", "0"):
        assert main([command, str(model), "-o", str(out), "--overwrite", "--max-nodes", most]) == 0


def test_nodes_of_subgraphs_and_functions_count(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18, "local" : 1]>
        g (float[4] x, bool c) => (float[n] y) {
            y = If (c) <then_branch = t () => (float[n] p) { q = Abs(x) p = local.f(q) },
                        else_branch = e () => (float[n] r) { r = Neg(x) }> }
        <domain: "local", opset_import: ["" : 18]> f (a) => (b) {
            i = Constant<value_ints = [0]>() j = Constant<value_ints = [2]>() b = Slice(a, i, j) }""")
    file = tmp_path / "m.onnx"
    onnx.save(model, file)
    with pytest.raises(sliceport.UsageError, match="the model has 7 nodes, but may have at most 6; max_nodes=0"):
        sliceport.rewrite(file, tmp_path / "o.onnx", max_nodes=6)
    sliceport.rewrite(file, tmp_path / "o.onnx", max_nodes=7)


def test_by_default_the_limit_is_for_models_with_something_to_rewrite(tmp_path: Path) -> None:
    chain = " ".join(f"v{i} = Relu({'x' if i == 0 else f'v{i - 1}'})" for i in range(MAX_NODES))
    large = write_model(tmp_path / "large.onnx", f"{chain} y = Relu(v{MAX_NODES - 1})")
    sliceport.rewrite(large, tmp_path / "o.onnx")
    sliced = write_model(tmp_path / "sliced.onnx", f"{chain} y = Slice(v{MAX_NODES - 1}, i, j)")
    with pytest.raises(sliceport.UsageError, match=f"has {MAX_NODES + 1} nodes, but may have at most {MAX_NODES};"):
        sliceport.rewrite(sliced, tmp_path / "o.onnx", overwrite=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [(-1, "max_nodes must not be negative, got -1"), ("a", "max_nodes must be an integer, got 'a'")],
)
def test_what_is_no_limit(tmp_path: Path, given: object, message: str) -> None:
    model = write_model(tmp_path / "m.onnx", SLICES)
    with pytest.raises(sliceport.UsageError, match=message):
        sliceport.rewrite(model, tmp_path / "o.onnx", max_nodes=given)  # type: ignore[arg-type]
