"""The command lines: results on stdout, everything else on stderr, exit codes, output folders that are whole or not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata, resources
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import jsonschema
import numpy as np
import onnx
import pytest
from command_line import Invoke
from our_engines import our_engines
from platforms import POSIX

import sliceport
from sliceport.directml import dxdispatch
from sliceport.directml.emulator import Bytes
from sliceport.directml.operators import Operator
from sliceport.errors import UsageError
from sliceport.wording import format_bytes
from sliceport.wording.shell import join

SCHEMA = json.loads(resources.files("sliceport.directml").joinpath("program_schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)  # jsonschema.validate() would check the schema every time


class TestLower:
    def test_text_has_a_row_a_node_and_a_last_line_with_the_counts(self, invoke: Invoke, models: Path) -> None:
        out, err = invoke("lower", models / "rule_coalesce.onnx")
        assert err == ""
        assert out.splitlines()[2:] == [
            "slice_a  Slice-13  lowered  #0 SLICE1 FLOAT32 [60]",
            "slice_b  Slice-13  lowered  #1 SLICE1 FLOAT32 [4,15]",
            "slice_c  Slice-13  lowered  #2 SLICE1 FLOAT32 [4,15]",
            "3 nodes: 3 lowered; 3 SLICE1 moving 408 bytes; feature level 6.4",
        ]

    def test_quiet_is_the_last_line(self, invoke: Invoke, models: Path) -> None:
        out = invoke("lower", models / "rule_identity.onnx", "-q").out
        assert out == "2 nodes: 2 alias; no operators moving 0 bytes; feature level 6.4\n"

    def test_verbose_shows_the_windows_and_the_strides_of_tensors(
        self, invoke: Invoke, models: Path, tmp_path: Path
    ) -> None:
        out = invoke("lower", models / "rule_coalesce.onnx", "-v").out
        assert "#0 SLICE1 FLOAT32 [60] offsets [15] sizes [30] strides [1]\n" in out
        out = invoke("lower", models / "rule_siblings.onnx", "-v", "--input-layout", "2,0,1").out
        assert " axis 1 into [3,5], tensor strides [8,1,16] to packed\n" in out
        out = invoke("lower", models / "rule_siblings.onnx", "-v", "--output-layout", "2,0,1").out
        assert " axis 1 into [3,5], tensor strides packed to [3,1,6], [5,1,10]\n" in out
        text = """<ir_version: 9, opset_import: ["" : 13]>
            g (float[2,6,4] x) => (float[2,1,4] p, float[2,1,4] q, float[2,4,4] r) <int64[3] parts = {1, 1, 4}> {
                p, q, r = Split <axis = 1> (x, parts)
            }"""
        onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
        out = invoke("lower", tmp_path / "m.onnx", "-v", "--output-layout", "2,0,1").out
        assert " tensor strides packed to [1,1,2], [1,1,2], [4,1,8]\n" in out

    def test_layout_of_another_rank_is_a_note(self, invoke: Invoke, models: Path) -> None:
        out = invoke("lower", models / "rule_siblings.onnx", "--input-layout", "NHWC", "--output-layout", "2,0,1").out
        assert out.startswith(
            "note: layout NHWC has no effect on the inputs of slicing nodes: none has as many axes\nnode "
        )

    def test_a_refusal_is_exit_1_and_said_in_full(self, invoke: Invoke, models: Path) -> None:
        out = invoke("lower", models / "rule_rank_limit.onnx", code=1).out
        assert "refused: Slice 'slice_y': not lowered: 9 dimensions remain" in out

    def test_a_model_without_slicing_is_fine(self, invoke: Invoke, tmp_path: Path) -> None:
        text = '<ir_version: 9, opset_import: ["" : 13]> g (float[4] x) => (float[4] y) { y = Relu (x) }'
        (tmp_path / "m.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
        out = invoke("lower", tmp_path / "m.onnx").out
        assert out.startswith("no slicing nodes in this model\n0 nodes; no operators")
        assert invoke("compare", tmp_path / "m.onnx").out.startswith("nothing to compare\n0 comparisons")

    def test_sizes_are_rounded_before_their_unit_is_chosen(self) -> None:
        texts = [format_bytes(count) for count in (0, 1, 1023, 2**10, 10**6, 2**20 - 1, 2**30 - 1, 3 * 2**40)]
        assert texts == ["0 bytes", "1 byte", "1023 bytes", "1.0 KiB", "976.6 KiB", "1.0 MiB", "1.0 GiB", "3072.0 GiB"]

    def test_every_model_gives_json_that_fits_the_schema(self, invoke: Invoke, models: Path) -> None:
        for path in sorted(models.glob("*.onnx")):
            program = json.loads(invoke("lower", path, "--format", "json", code=ANY).out)
            VALIDATOR.validate(program)
            assert program["summary"]["total"] == len(program["nodes"])
            verdicts = [node["verdict"] for node in program["nodes"]]
            assert all(verdicts.count(v) == n for v, n in program["summary"].items() if v != "total")

    @pytest.mark.parametrize("option", [["--layout", "NHWC"], ["--views"], ["--feature-level", "2.1"]])
    def test_options_give_json_that_fits_the_schema(self, invoke: Invoke, models: Path, option: list[str]) -> None:
        out = invoke("lower", models / "rule_coalesce.onnx", "--format", "json", *option).out
        jsonschema.validate(json.loads(out), SCHEMA)

    def test_the_schema_is_one_itself_and_refuses_what_is_wrong(self, models: Path) -> None:
        jsonschema.Draft202012Validator.check_schema(SCHEMA)
        program = sliceport.lower(models / "rule_coalesce.onnx").to_json()
        changes: list[Callable[[Any], object]] = [
            lambda p: p["nodes"][0].update(verdict="refused"),
            lambda p: p["nodes"][0].update(operators=[]),
            lambda p: p["nodes"][0]["operators"][0]["desc"].pop("InputWindowSizes"),
            lambda p: p["nodes"][0]["operators"][0]["desc"]["InputTensor"].update(Sizes=[0]),
            lambda p: p["summary"].pop("folded"),
        ]
        for change in changes:
            broken = json.loads(json.dumps(program))
            change(broken)
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(broken, SCHEMA)

    def test_input_shapes(self, invoke: Invoke, models: Path) -> None:
        path = models / "rule_symbolic.onnx"
        invoke("lower", path, code=1)
        invoke("lower", path, "--input-shapes", "x:2,5,8")
        invoke("lower", path, "--input-shapes", "x:[2,5,8]")
        invoke("lower", path, "--input-shapes=x:2,5,8")

    @pytest.mark.parametrize("command", ["lower", "compare", "check", "harden --verify -o", "rewrite --verify -o"])
    @pytest.mark.parametrize("word", ["auto", "auto=1"])
    def test_every_command_chooses_open_sizes(
        self, invoke: Invoke, models: Path, tmp_path: Path, command: str, word: str
    ) -> None:
        output = [tmp_path / "out.onnx"] if command.endswith("-o") else []
        invoke(*command.split(), *output, models / "rule_symbolic.onnx", f"--input-shapes={word}")

    def test_abbreviated_option_may_lack_its_value(self, invoke: Invoke, models: Path, tmp_path: Path) -> None:
        invoke("rewrite", "--verif", models / "rule_coalesce.onnx", "-o", tmp_path / "out.onnx")

    def test_chosen_sizes_are_those_that_are_lowered(self, invoke: Invoke, models: Path) -> None:
        chosen = invoke("lower", models / "rule_symbolic.onnx", "--input-shapes=auto=7", "-v").out
        assert chosen == invoke("lower", models / "rule_symbolic.onnx", "--input-shapes=x:7,7,8", "-v").out

    @pytest.mark.parametrize("words", [["--input-shapes", "a:4,5"], ["--input-sh=a:4,5"]])
    def test_input_shapes_that_follow_one_another(self, invoke: Invoke, tmp_path: Path, words: list[str]) -> None:
        model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
            g (float[N, 5] a, float[M, 4] b) => (float[P, 5] y, float[Q, 4] z)
            <int64[1] start = {1}, int64[1] end = {4}> { y = Slice(a, start, end) z = Slice(b, start, end) }""")
        onnx.save(model, tmp_path / "m.onnx")
        for more in (["b:6,4"], ["--input-shapes", "b:6,4"], ["--input-shapes=b:6,4"]):
            invoke("lower", *words, *more, tmp_path / "m.onnx")

    def test_auto_may_follow_a_shape(self, invoke: Invoke, models: Path) -> None:
        chosen = invoke("lower", models / "rule_symbolic.onnx", "--input-shapes", "x:2,5,8", "auto").out
        assert chosen == invoke("lower", models / "rule_symbolic.onnx", "--input-shapes", "auto", "x:2,5,8").out


class TestUsage:
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("lower M --input-shapes x", "input shape 'x' must be written NAME:1,3,224,224"),
            ("lower M --input-shapes x:1,-2", "input shape 'x:1,-2' must be written"),
            ("lower M --input-shapes x:2,3 x:2,3", "input 'x' is given two shapes"),
            ("lower M --input-shapes q:2,3", "the model has no input 'q' to give a shape to"),
            ("lower M --input-shapes x:99999999999999999999", "with sizes from 0 up, of at most 18 digits."),
            ("lower M --input-shapes x:]1,3[", "input shape 'x:]1,3[' must be written"),
            ("lower M --input-shapes auto=", "--input-shapes auto= must be auto, or auto with a size as in auto=1."),
            ("lower M --feature-level 9.9", "feature level '9.9' does not exist"),
            ("lower M --layout NXYZ", "layout 'NXYZ' is not known"),
            (
                "compare M --executors tpu",
                "executor 'tpu' is not known; known are onnxruntime-cpu, ",
            ),
            ("compare M --executors directm", "executor 'directm' is not known, did you mean 'directml'? known are"),
            ("compare M --executors ,", "--executors lists no names; write names separated by commas"),
            ("compare M --executors onnxruntime-cpu", "nothing to compare 'onnxruntime-cpu' with"),
            ("compare M --seed -1", "the seed must not be negative"),
            ("compare M --input x", "input 'x' must be written NAME=FILE.npy"),
            ("compare M --input x=none.npy", "input file 'none.npy' cannot be read"),
            ("compare M --input-shapes x:1,2,3", "input 'x' has 4 elements on axis 0"),
            (
                "rewrite M -o O --passes=",
                "--passes lists no names; write names separated by commas, or leave the option out.",
            ),
            (
                "rewrite M -o O --passes compos",
                "pass 'compos' is not known, did you mean 'compose'? known are strided,",
            ),
            ("lower", "the following arguments are required: MODEL"),
            ("lower M --what", "unrecognized arguments: --what"),
            ("lowr m.onnx", "'lowr' is not known, did you mean 'lower'? known are check, diff, probe, harden,"),
            ("lower M --format jsn", "'jsn' is not known, did you mean 'json'? known are text, json."),
            ("lower M --format q", "'q' is not known; known are text, json."),
            ("harden M -o O --verify=q", "'q' is not known; known are onnxruntime-cpu, onnxruntime-dml, openvino-cpu."),
        ],
    )
    def test_error_is_one_sentence_and_exit_2(
        self, invoke: Invoke, models: Path, tmp_path: Path, words: str, message: str
    ) -> None:
        files = {"M": str(models / "rule_coalesce.onnx"), "O": str(tmp_path / "out.onnx")}
        out, err = invoke(*(files.get(word, word) for word in words.split()), code=2)
        assert (out, err.count("\n")) == ("", 1)
        assert message in err
        assert list(tmp_path.iterdir()) == []

    def test_a_command_without_arguments_prints_its_help(self, invoke: Invoke) -> None:
        for arguments, listed in (([], "directml"), (["directml"], "uninstall")):
            out, err = invoke(*arguments)
            assert (out.split()[0], err) == ("usage:", "")
            assert listed in out

    def test_version_is_printed(self, invoke: Invoke) -> None:
        assert invoke("--version") == (f"sliceport {metadata.version('sliceport')}\n", "")

    def test_help_lists_every_pass_and_executor(self, invoke: Invoke) -> None:
        from onnx_ops.passes import PASSES
        from sliceport.engines.registry import engines

        onnx = ["onnxruntime-cpu", "directml", "directml-validate", "dml-emulator", "onnxruntime-dml"]
        openvino = ["openvino", "directml", "directml-validate", "dml-emulator", "openvino-cpu", "ov_ext"]
        assert {*onnx, *openvino} == our_engines().keys() - {"onnx-reference"}
        others = engines().keys() - our_engines().keys()
        for command, names in (("rewrite", [*PASSES]), ("compare", [*onnx, *openvino])):
            lines = invoke(command, "--help").out.splitlines()
            assert max(map(len, lines)) <= 80
            listed = [line.split()[0] for line in lines if line.startswith("  ") and line[2] not in " -"]
            assert [name for name in listed if not name.startswith("MODEL") and name not in others] == names

    def test_nothing_but_the_result_is_on_stdout(self, models: Path) -> None:
        words = ["lower", str(models / "rule_coalesce.onnx"), "--format", "json", "-vv"]
        command = [sys.executable, "-m", "sliceport", *words]
        done = subprocess.run(command, capture_output=True, check=True, timeout=300)
        json.loads(done.stdout)


class TestOutputFolder:
    def test_holds_program_dxdispatch_files_and_the_annotated_model(
        self, invoke: Invoke, models: Path, tmp_path: Path
    ) -> None:
        out, err = invoke("lower", models / "rule_coalesce.onnx", "-o", tmp_path / "out")
        assert out.endswith("feature level 6.4\n")
        assert err == f"sliceport: wrote {tmp_path / 'out'}\n"
        program = json.loads((tmp_path / "out" / "program.json").read_text())
        assert program == sliceport.lower(models / "rule_coalesce.onnx").to_json()
        assert sorted(p.name for p in (tmp_path / "out" / "dxdispatch").iterdir()) == [
            "0000_slice_a.input.npy", "0000_slice_a.json", "0001_slice_b.input.npy", "0001_slice_b.json",
            "0002_slice_c.input.npy", "0002_slice_c.json",
        ]  # fmt: skip
        model = onnx.load(tmp_path / "out" / "model.onnx")
        onnx.checker.check_model(model, full_check=True)
        annotated = {n.name: {e.key: e.value for e in n.metadata_props} for n in model.graph.node}
        assert annotated["slice_a"]["io.sliceport.verdict"] == "lowered"
        assert json.loads(annotated["slice_a"]["io.sliceport.dxdispatch"]) == ["dxdispatch/0000_slice_a.json"]

    def test_the_model_is_otherwise_the_same(self, invoke: Invoke, models: Path, tmp_path: Path) -> None:
        for name in ("rule_function", "rule_subgraphs", "rule_siblings"):
            invoke("lower", models / f"{name}.onnx", "-o", tmp_path / name)
            model = onnx.load(tmp_path / name / "model.onnx")
            marked = 0
            for node in self.all_nodes(model):
                marked += bool(node.metadata_props)
                del node.metadata_props[:]
            assert marked == (1 if name == "rule_function" else 2 if name == "rule_subgraphs" else 3)
            assert model == onnx.load(models / f"{name}.onnx")

    def all_nodes(self, model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
        graphs = [model.graph, *model.functions]
        while graphs:
            for node in graphs.pop().node:
                yield node
                graphs += [a.g for a in node.attribute if a.HasField("g")]

    def test_a_refusal_is_annotated_with_its_reason(self, invoke: Invoke, models: Path, tmp_path: Path) -> None:
        invoke("lower", models / "rule_strings.onnx", "-o", tmp_path / "out", code=1)
        node = onnx.load(tmp_path / "out" / "model.onnx").graph.node[-1]
        assert {e.key: e.value for e in node.metadata_props}["io.sliceport.reason"] == "unsupported_type"
        assert not (tmp_path / "out" / "dxdispatch").exists()

    def test_an_existing_folder_is_kept(self, invoke: Invoke, models: Path, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine.txt").write_text("mine")
        for options in ((), ("--overwrite",)):
            out, err = invoke("lower", models / "rule_coalesce.onnx", "-o", tmp_path / "out", *options, code=2)
            assert out == ""
        assert "is not a folder of an earlier run, so it is not overwritten" in err
        assert [p.name for p in (tmp_path / "out").iterdir()] == ["mine.txt"]
        assert [p.name for p in tmp_path.iterdir()] == ["out"]

    def test_overwrite_replaces_what_an_earlier_run_wrote(self, invoke: Invoke, models: Path, tmp_path: Path) -> None:
        invoke("lower", models / "rule_coalesce.onnx", "-o", tmp_path / "out")
        err = invoke("lower", models / "rule_identity.onnx", "-o", tmp_path / "out", code=2).err
        assert "exists; give another folder or --overwrite" in err
        invoke("lower", models / "rule_identity.onnx", "-o", tmp_path / "out", "--overwrite")
        assert json.loads((tmp_path / "out" / "program.json").read_text())["summary"]["alias"] == 2
        assert not (tmp_path / "out" / "dxdispatch").exists()
        assert [p.name for p in tmp_path.iterdir()] == ["out"]

    @POSIX
    def test_a_link_is_not_followed(self, invoke: Invoke, models: Path, tmp_path: Path) -> None:
        invoke("lower", models / "rule_coalesce.onnx", "-o", tmp_path / "real")
        (tmp_path / "link").symlink_to(tmp_path / "real")
        invoke("lower", models / "rule_coalesce.onnx", "-o", tmp_path / "link", "--overwrite", code=2)

    def test_a_run_that_fails_half_way_leaves_nothing(
        self, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program = sliceport.lower(models / "rule_coalesce.onnx")
        write_model = dxdispatch.write_model

        def failing(operator: Operator, name: str, folder: Path) -> None:
            if name.startswith("0001"):
                raise OSError(28, "No space left on device")
            write_model(operator, name, folder)

        monkeypatch.setattr(dxdispatch, "write_model", failing)
        with pytest.raises(UsageError, match=r"cannot be written \(No space left on device\)"):
            program.write(tmp_path / "out")
        assert list(tmp_path.iterdir()) == []

    def test_a_run_that_fails_half_way_leaves_the_old_folder(
        self, models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program = sliceport.lower(models / "rule_coalesce.onnx")
        program.write(tmp_path / "out")
        before = sorted((p, p.read_bytes()) for p in (tmp_path / "out").rglob("*") if p.is_file())

        def denied(_path: Path, _target: Path) -> None:
            raise OSError(13, "Permission denied")

        monkeypatch.setattr(Path, "rename", denied)
        with pytest.raises(UsageError, match="Permission denied"):
            program.write(tmp_path / "out", overwrite=True)
        assert sorted((p, p.read_bytes()) for p in (tmp_path / "out").rglob("*") if p.is_file()) == before

    @POSIX
    def test_a_folder_that_cannot_be_made(self, invoke: Invoke, models: Path, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        err = invoke("lower", models / "rule_coalesce.onnx", "-o", tmp_path / "file" / "out", code=2).err
        assert "cannot be made (File exists)" in err

    def test_parents_are_made(self, invoke: Invoke, models: Path, tmp_path: Path) -> None:
        invoke("lower", models / "rule_coalesce.onnx", "-o", tmp_path / "a" / "b")

    def test_the_folder_is_as_open_as_any_other(self, invoke: Invoke, models: Path, tmp_path: Path) -> None:
        invoke("lower", models / "rule_coalesce.onnx", "-o", tmp_path / "out")
        (tmp_path / "other").mkdir()
        assert (tmp_path / "out").stat().st_mode == (tmp_path / "other").stat().st_mode


class TestCompare:
    def test_json_tells_nodes_that_run_alone(self, invoke: Invoke, models: Path) -> None:
        out = invoke("compare", models / "rule_subgraphs.onnx", "--format", "json").out
        report = json.loads(out)
        assert report["summary"]["equal"] == 2
        assert [c["alone"] for c in report["comparisons"]] == [True, True]
        assert all(c["bytes_compared"] > 0 for c in report["comparisons"])

    def test_a_refused_node_is_a_finding(self, invoke: Invoke, models: Path) -> None:
        invoke("compare", models / "rule_strings.onnx", code=1)

    def test_no_strings_are_compared(self, invoke: Invoke, tmp_path: Path) -> None:
        proto = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 13]> g (string[3] x) => (string[0] y)
            <int64[1] s = {1}> { y = Slice(x, s, s) }""")
        onnx.save(proto, tmp_path / "m.onnx")
        assert "1 equal" in invoke("compare", tmp_path / "m.onnx").out

    def test_a_model_all_of_whose_tensors_are_external(self, invoke: Invoke, models: Path, tmp_path: Path) -> None:
        model = onnx.load(models / "dynamo_phi_dyn.onnx")
        onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, location="m.data")
        arguments = ("compare", tmp_path / "m.onnx", "--input-shapes", "x:1,16")
        assert "11 equal" in invoke(*arguments).out
        (tmp_path / "m.data").unlink()
        invoke(*arguments, code=1)

    @pytest.mark.parametrize(("name", "shape"), [("rule_coalesce", (4, 3, 5)), ("rule_symbolic", (2, 5, 8))])
    def test_own_inputs_are_taken_and_give_open_shapes(
        self, invoke: Invoke, models: Path, tmp_path: Path, name: str, shape: tuple[int, ...]
    ) -> None:
        np.save(tmp_path / "x.npy", np.arange(np.prod(shape), dtype=np.float32).reshape(shape))
        invoke("compare", models / f"{name}.onnx", "--input", f"x={tmp_path / 'x.npy'}")

    def test_open_shapes_are_chosen(self, invoke: Invoke, models: Path) -> None:
        printed = invoke("compare", models / "rule_symbolic.onnx", "--format", "json")
        assert "sizes: x 2,23,8 (chosen; --input-shapes x:… for others)" in printed.err
        assert "--input-shapes x:2,23,8" in json.loads(printed.out)["command"]

    def test_open_shapes_are_asked_for_once(self, invoke: Invoke, models: Path) -> None:
        out = invoke("lower", models / "rule_symbolic.onnx", code=1).out
        assert out.count("refused: ") == 2
        assert out.count(f"open: give sizes, as in {join(['--input-shapes', 'x:1,16,8'])} (an example).") == 1

    def test_inputs_of_the_wrong_type_or_shape_are_refused(self, invoke: Invoke, models: Path, tmp_path: Path) -> None:
        words = ["compare", models / "rule_coalesce.onnx", "--input", f"x={tmp_path / 'x.npy'}"]
        np.save(tmp_path / "x.npy", np.zeros((4, 3, 5)))
        assert "input 'x' needs float32 elements, got float64" in invoke(*words, code=2).err
        np.save(tmp_path / "x.npy", np.zeros((4, 3), np.float32))
        assert "input 'x' has rank 3" in invoke(*words, code=2).err

    def test_a_mismatch_names_node_index_and_a_command(
        self, invoke: Invoke, models: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The comparison must be able to fail: an executor that moves one byte is found out."""
        from sliceport.engines.dml_emulator import DmlEmulator
        from sliceport.engines.registry import engines

        class Wrong(DmlEmulator):
            def run_operator(self, operator: Operator, data: Bytes) -> list[Bytes]:
                results = super().run_operator(operator, data)
                results[0][5] ^= 1
                return results

        monkeypatch.setitem(engines(), "dml-emulator", Wrong())
        out = invoke("compare", models / "rule_coalesce.onnx", "--seed", "3", code=1).out
        assert "mismatch: Slice 'slice_a': output 'a' by dml-emulator differs from onnxruntime-cpu: first at" in out
        assert "index [0, 0, 1], computed bytes" in out
        assert f"reproduce: sliceport compare {models / 'rule_coalesce.onnx'} --seed 3 --feature-level 6.4" in out

    def test_without_onnxruntime_the_extra_is_named(
        self, invoke: Invoke, models: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
        assert 'pip install "sliceport[onnxruntime]"' in invoke("compare", models / "rule_coalesce.onnx", code=2).err


class TestHints:
    def test_json_option_names_the_format_option(self, invoke: Invoke) -> None:
        printed = invoke("lower", "m.onnx", "--json", code=2)
        assert printed.err.strip().endswith("unrecognized arguments: --json; write --format json")
        for words in ("cases --export d --json", "lower m.onnx --jsonl"):  # without --format, another option
            assert "write" not in invoke(*words.split(), code=2).err

    def test_folder_names_batch(self, tmp_path: Path, invoke: Invoke) -> None:
        (tmp_path / "it's").mkdir()
        error = invoke("lower", tmp_path / "it's", code=2).err.strip()
        command = join(["sliceport", "batch", "lower", str(tmp_path / "it's"), "-o", "RUN"])
        assert error.endswith(f"is a folder, and lower takes a file; write {command}.")

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("lower M", "it is not an ONNX model"),
            ("lower M --input-shapes x", "input shape 'x' must be written"),
            ("batch report M", "is not a folder"),
            ("lower M --json", "unrecognized arguments: --json"),
            ("lower M --seed x", "unrecognized arguments: --seed x"),
            ("lower", "the following arguments are required: MODEL"),
            ("lowr M", "did you mean 'lower'?"),
        ],
    )
    def test_error_is_json_where_json_is_asked_for(
        self, tmp_path: Path, invoke: Invoke, words: str, message: str
    ) -> None:
        (tmp_path / "m.onnx").write_bytes(b"no model")
        printed = invoke(*words.replace("M", str(tmp_path / "m.onnx")).split(), "--format", "json", code=2)
        error = json.loads(printed.out)
        assert error["schema_version"] == 1
        assert message in error["error"]
        assert error["error"] in printed.err
