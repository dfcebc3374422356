"""Write the table of `README.md` from the models, `models.json` and `make_rules.py`.

python models/make_table.py
"""

from __future__ import annotations

import json
from pathlib import Path

import onnx
from make_rules import OPENVINO_RULES, RULES

FOLDER = Path(__file__).parent
SHAPES = {"rule_symbolic": "x:2,5,8"}
HEAD = """| file | made by | opset | shapes | Slice / Split | bytes | what it is there for |
|---|---|---|---|---|---|---|
"""


def counts(graph: onnx.GraphProto | onnx.FunctionProto) -> tuple[int, int]:
    """Return the numbers of Slice and Split nodes, including those of subgraphs."""
    slices = splits = 0
    for node in graph.node:
        slices += node.op_type == "Slice"
        splits += node.op_type == "Split"
        for attribute in node.attribute:
            for subgraph in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                inner = counts(subgraph)
                slices, splits = slices + inner[0], splits + inner[1]
    return slices, splits


def row(file: str, made_by: str, opset: int, shapes: str, purpose: str) -> str:
    """Return a line of the table."""
    model = onnx.load(FOLDER / file)
    slices, splits = map(sum, zip(counts(model.graph), *map(counts, model.functions), strict=True))
    size = (FOLDER / file).stat().st_size
    return f"| {file} | {made_by} | {opset} | {shapes} | {slices} / {splits} | {size} | {purpose} |\n"


def main() -> None:
    """Replace the table, which is the end of the file."""
    rows = []
    for entry in json.loads((FOLDER / "models.json").read_text()):
        shapes = " ".join(f"{name}:{','.join(map(str, shape))}" for name, shape in entry["input_shapes"].items())
        rows.append(row(entry["file"], entry["exporter"], entry["opset"], shapes or "static", entry["purpose"]))
    for name, (opset, _, purpose) in RULES.items():
        rows.append(row(f"{name}.onnx", "by hand", opset, SHAPES.get(name, "static"), purpose))
    for name, (_, _, purpose) in OPENVINO_RULES.items():
        size = (FOLDER / f"{name}.xml").stat().st_size
        rows.append(f"| {name}.xml | by hand | OpenVINO IR 11 | static | 1 / 0 | {size} | {purpose} |\n")
    readme = FOLDER / "README.md"
    text = readme.read_text()
    readme.write_text(text[: text.index("| file |")] + HEAD + "".join(sorted(rows)))


if __name__ == "__main__":
    main()
