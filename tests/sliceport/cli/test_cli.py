"""The command lines: results on stdout, everything else on stderr, exit codes, output folders that are whole or not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import pytest
from platforms import POSIX

import sliceport
from sliceport.cli.main import main
from sliceport.directml import dxdispatch
from sliceport.directml.emulator import Bytes
from sliceport.directml.operators import Operator
from sliceport.errors import UsageError
from sliceport.shell import join

SCHEMA = json.loads(resources.files("sliceport.directml").joinpath("program_schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)  # jsonschema.validate() would check the schema every time


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs a command line and returns its exit code, stdout and stderr."""

    def run_words(*arguments: object) -> tuple[int, str, str]:
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as exit_:  # of the parser
            code = int(str(exit_.code))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_words


class TestLower:
    def test_text_has_a_row_a_node_and_a_last_line_with_the_counts(self, run: Run, models: Path) -> None:
        code, out, err = run("lower", models / "rule_coalesce.onnx")
        assert (code, err) == (0, "")
        assert out.splitlines()[2:] == [
            "slice_a  Slice-13  lowered  #0 SLICE1 FLOAT32 [60]",
            "slice_b  Slice-13  lowered  #1 SLICE1 FLOAT32 [4,15]",
            "slice_c  Slice-13  lowered  #2 SLICE1 FLOAT32 [4,15]",
            "3 nodes: 3 lowered; 3 SLICE1 moving 408 bytes; feature level 6.4",
        ]

    def test_quiet_is_the_last_line(self, run: Run, models: Path) -> None:
        _, out, _ = run("lower", models / "rule_identity.onnx", "-q")
        assert out == "2 nodes: 2 alias; no operators moving 0 bytes; feature level 6.4\n"

    def test_verbose_shows_the_windows(self, run: Run, models: Path) -> None:
        _, out, _ = run("lower", models / "rule_coalesce.onnx", "-v")
        assert "#0 SLICE1 FLOAT32 [60] offsets [15] sizes [30] strides [1]" in out

    def test_a_refusal_is_exit_1_and_said_in_full(self, run: Run, models: Path) -> None:
        code, out, _ = run("lower", models / "rule_rank_limit.onnx")
        assert code == 1
        assert "refused: Slice 'slice_y': not lowered: 9 dimensions remain" in out

    def test_a_model_without_slicing_is_fine(self, run: Run, tmp_path: Path) -> None:
        text = '<ir_version: 9, opset_import: ["" : 13]> g (float[4] x) => (float[4] y) { y = Relu (x) }'
        (tmp_path / "m.onnx").write_bytes(onnx.parser.parse_model(text).SerializeToString())
        code, out, _ = run("lower", tmp_path / "m.onnx")
        assert code == 0
        assert out.startswith("no Slice or Split in this model\n0 nodes; no operators")

    def test_every_model_gives_json_that_fits_the_schema(self, run: Run, models: Path) -> None:
        for path in sorted(models.glob("*.onnx")):
            _, out, _ = run("lower", path, "--format", "json")
            program = json.loads(out)
            VALIDATOR.validate(program)
            assert program["summary"]["total"] == len(program["nodes"])
            verdicts = [node["verdict"] for node in program["nodes"]]
            assert all(verdicts.count(v) == n for v, n in program["summary"].items() if v != "total")

    @pytest.mark.parametrize("option", [["--layout", "NHWC"], ["--views"], ["--feature-level", "2.1"]])
    def test_options_give_json_that_fits_the_schema(self, run: Run, models: Path, option: list[str]) -> None:
        _, out, _ = run("lower", models / "rule_coalesce.onnx", "--format", "json", *option)
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

    def test_input_shapes(self, run: Run, models: Path) -> None:
        path = models / "rule_symbolic.onnx"
        assert run("lower", path)[0] == 1
        assert run("lower", path, "--input-shapes", "x:2,5,8")[0] == 0
        assert run("lower", path, "--input-shapes", "x:[2,5,8]")[0] == 0
        assert run("lower", path, "--input-shapes=x:2,5,8")[0] == 0

    @pytest.mark.parametrize("command", ["lower", "compare", "check", "harden --verify -o", "rewrite --verify -o"])
    @pytest.mark.parametrize("word", ["auto", "auto=1"])
    def test_every_command_chooses_open_sizes(
        self, run: Run, models: Path, tmp_path: Path, command: str, word: str
    ) -> None:
        output = [tmp_path / "out.onnx"] if command.endswith("-o") else []
        code, _, error = run(*command.split(), *output, models / "rule_symbolic.onnx", f"--input-shapes={word}")
        assert code == 0, error

    def test_chosen_sizes_are_those_that_are_lowered(self, run: Run, models: Path) -> None:
        _, chosen, _ = run("lower", models / "rule_symbolic.onnx", "--input-shapes=auto=7", "-v")
        _, given, _ = run("lower", models / "rule_symbolic.onnx", "--input-shapes=x:7,7,8", "-v")
        assert chosen == given

    @pytest.mark.parametrize("words", [["--input-shapes", "a:4,5"], ["--input-shapes=a:4,5"]])
    def test_input_shapes_that_follow_one_another(self, run: Run, tmp_path: Path, words: list[str]) -> None:
        model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 18]>
            g (float[N, 5] a, float[M, 4] b) => (float[P, 5] y, float[Q, 4] z)
            <int64[1] start = {1}, int64[1] end = {4}> { y = Slice(a, start, end) z = Slice(b, start, end) }""")
        onnx.save(model, tmp_path / "m.onnx")
        for more in (["b:6,4"], ["--input-shapes", "b:6,4"], ["--input-shapes=b:6,4"]):
            assert run("lower", *words, *more, tmp_path / "m.onnx")[0] == 0


class TestUsage:
    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("lower M --input-shapes x", "input shape 'x' must be written NAME:1,3,224,224"),
            ("lower M --input-shapes x:1,-2", "input shape 'x:1,-2' must be written"),
            ("lower M --input-shapes x:2,3 x:2,3", "input 'x' is given two shapes"),
            ("lower M --input-shapes q:2,3", "the model has no input 'q' to give a shape to"),
            ("lower M --input-shapes x:99999999999999999999", "with sizes from 0 up, of at most 18 digits."),
            ("lower M --feature-level 9.9", "feature level '9.9' does not exist"),
            ("lower M --layout NXYZ", "layout 'NXYZ' is not known"),
            (
                "compare M --executors tpu",
                "executor 'tpu' is not known; known are onnxruntime-cpu, directml, directml-val",
            ),
            ("compare M --executors directm", "executor 'directm' is not known, did you mean 'directml'? known are"),
            ("compare M --executors ,", "--executors names nothing; leave it out"),
            ("compare M --executors onnxruntime-cpu", "nothing to compare 'onnxruntime-cpu' with"),
            ("compare M --seed -1", "the seed must not be negative"),
            ("compare M --input x", "input 'x' must be written NAME=FILE.npy"),
            ("compare M --input x=none.npy", "input file 'none.npy' cannot be read"),
            ("compare M --input-shapes x:1,2,3", "input 'x' has 4 elements on axis 0"),
            ("rewrite M -o O --passes=", "--passes names nothing; leave it out for what runs by default."),
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
        self, run: Run, models: Path, tmp_path: Path, words: str, message: str
    ) -> None:
        files = {"M": str(models / "rule_coalesce.onnx"), "O": str(tmp_path / "out.onnx")}
        code, out, err = run(*(files.get(word, word) for word in words.split()))
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err
        assert list(tmp_path.iterdir()) == []

    def test_a_command_without_arguments_prints_its_help(self, run: Run) -> None:
        for arguments, listed in (([], "directml"), (["directml"], "uninstall")):
            code, out, err = run(*arguments)
            assert (code, out.split()[0], err) == (0, "usage:", "")
            assert listed in out

    def test_version_is_printed(self, run: Run) -> None:
        assert run("--version") == (0, f"sliceport {metadata.version('sliceport')}\n", "")

    def test_help_lists_every_pass_and_executor(self, run: Run) -> None:
        from onnx_ops.passes import PASSES
        from onnx_ops.passes.optimizers import OPTIMIZERS
        from sliceport.engines.registry import engines

        onnx = ["onnxruntime-cpu", "directml", "directml-validate", "dml-emulator", "onnxruntime-dml"]
        openvino = ["openvino", "directml", "directml-validate", "dml-emulator", "openvino-cpu", "ov_ext"]
        assert {*onnx, *openvino} == engines().keys() - {"onnx-reference"}
        for command, names in (("rewrite", [*PASSES, *OPTIMIZERS]), ("compare", [*onnx, *openvino])):
            lines = run(command, "--help")[1].splitlines()
            assert max(map(len, lines)) <= 80
            listed = [line.split()[0] for line in lines if line.startswith("  ") and line[2] not in " -"]
            assert [name for name in listed if not name.startswith("MODEL")] == names

    def test_nothing_but_the_result_is_on_stdout(self, models: Path) -> None:
        words = ["lower", str(models / "rule_coalesce.onnx"), "--format", "json", "-vv"]
        command = [sys.executable, "-m", "sliceport", *words]
        done = subprocess.run(command, capture_output=True, check=True, timeout=300)
        json.loads(done.stdout)


class TestOutputFolder:
    def lower(self, run: Run, model: Path, folder: Path, *options: str) -> tuple[int, str, str]:
        return run("lower", model, "-o", folder, *options)

    def test_holds_program_dxdispatch_files_and_the_annotated_model(
        self, run: Run, models: Path, tmp_path: Path
    ) -> None:
        code, out, err = self.lower(run, models / "rule_coalesce.onnx", tmp_path / "out")
        assert code == 0
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

    def test_the_model_is_otherwise_the_same(self, run: Run, models: Path, tmp_path: Path) -> None:
        for name in ("rule_function", "rule_subgraphs", "rule_siblings"):
            self.lower(run, models / f"{name}.onnx", tmp_path / name)
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

    def test_a_refusal_is_annotated_with_its_reason(self, run: Run, models: Path, tmp_path: Path) -> None:
        assert self.lower(run, models / "rule_strings.onnx", tmp_path / "out")[0] == 1
        node = onnx.load(tmp_path / "out" / "model.onnx").graph.node[-1]
        assert {e.key: e.value for e in node.metadata_props}["io.sliceport.reason"] == "unsupported_type"
        assert not (tmp_path / "out" / "dxdispatch").exists()

    def test_an_existing_folder_is_kept(self, run: Run, models: Path, tmp_path: Path) -> None:
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "mine.txt").write_text("mine")
        for options in ((), ("--overwrite",)):
            code, out, err = self.lower(run, models / "rule_coalesce.onnx", tmp_path / "out", *options)
            assert (code, out) == (2, "")
        assert "is not a folder of an earlier run, so it is not overwritten" in err
        assert [p.name for p in (tmp_path / "out").iterdir()] == ["mine.txt"]
        assert [p.name for p in tmp_path.iterdir()] == ["out"]

    def test_overwrite_replaces_what_an_earlier_run_wrote(self, run: Run, models: Path, tmp_path: Path) -> None:
        self.lower(run, models / "rule_coalesce.onnx", tmp_path / "out")
        code, _, err = self.lower(run, models / "rule_identity.onnx", tmp_path / "out")
        assert code == 2
        assert "exists; give another folder or --overwrite" in err
        assert self.lower(run, models / "rule_identity.onnx", tmp_path / "out", "--overwrite")[0] == 0
        assert json.loads((tmp_path / "out" / "program.json").read_text())["summary"]["alias"] == 2
        assert not (tmp_path / "out" / "dxdispatch").exists()
        assert [p.name for p in tmp_path.iterdir()] == ["out"]

    @POSIX
    def test_a_link_is_not_followed(self, run: Run, models: Path, tmp_path: Path) -> None:
        self.lower(run, models / "rule_coalesce.onnx", tmp_path / "real")
        (tmp_path / "link").symlink_to(tmp_path / "real")
        assert self.lower(run, models / "rule_coalesce.onnx", tmp_path / "link", "--overwrite")[0] == 2

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
    def test_a_folder_that_cannot_be_made(self, run: Run, models: Path, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        code, _, err = self.lower(run, models / "rule_coalesce.onnx", tmp_path / "file" / "out")
        assert code == 2
        assert "cannot be made (File exists)" in err

    def test_parents_are_made(self, run: Run, models: Path, tmp_path: Path) -> None:
        assert self.lower(run, models / "rule_coalesce.onnx", tmp_path / "a" / "b")[0] == 0

    def test_the_folder_is_as_open_as_any_other(self, run: Run, models: Path, tmp_path: Path) -> None:
        self.lower(run, models / "rule_coalesce.onnx", tmp_path / "out")
        (tmp_path / "other").mkdir()
        assert (tmp_path / "out").stat().st_mode == (tmp_path / "other").stat().st_mode


class TestCompare:
    def test_equal_is_exit_0(self, run: Run, models: Path) -> None:
        code, out, err = run("compare", models / "rule_coalesce.onnx")
        assert (code, err) == (0, "")
        assert "3 equal" in out.splitlines()[-1]

    def test_json_tells_nodes_that_run_alone(self, run: Run, models: Path) -> None:
        _, out, _ = run("compare", models / "rule_subgraphs.onnx", "--format", "json")
        report = json.loads(out)
        assert report["summary"]["equal"] == 2
        assert [c["alone"] for c in report["comparisons"]] == [True, True]
        assert all(c["bytes_compared"] > 0 for c in report["comparisons"])

    def test_a_refused_node_is_a_finding(self, run: Run, models: Path) -> None:
        assert run("compare", models / "rule_strings.onnx")[0] == 1

    def test_no_strings_are_compared(self, run: Run, tmp_path: Path) -> None:
        proto = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["" : 13]> g (string[3] x) => (string[0] y)
            <int64[1] s = {1}> { y = Slice(x, s, s) }""")
        onnx.save(proto, tmp_path / "m.onnx")
        status, out, _ = run("compare", tmp_path / "m.onnx")
        assert (status, "1 equal" in out) == (0, True)

    def test_a_model_all_of_whose_tensors_are_external(self, run: Run, models: Path, tmp_path: Path) -> None:
        model = onnx.load(models / "dynamo_phi_dyn.onnx")
        onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, location="m.data")
        arguments = ("compare", tmp_path / "m.onnx", "--input-shapes", "x:1,16")
        code, out, _ = run(*arguments)
        assert code == 0
        assert "11 equal" in out
        (tmp_path / "m.data").unlink()
        assert run(*arguments)[0] == 1

    @pytest.mark.parametrize(("name", "shape"), [("rule_coalesce", (4, 3, 5)), ("rule_symbolic", (2, 5, 8))])
    def test_own_inputs_are_taken_and_give_open_shapes(
        self, run: Run, models: Path, tmp_path: Path, name: str, shape: tuple[int, ...]
    ) -> None:
        np.save(tmp_path / "x.npy", np.arange(np.prod(shape), dtype=np.float32).reshape(shape))
        assert run("compare", models / f"{name}.onnx", "--input", f"x={tmp_path / 'x.npy'}")[0] == 0

    @pytest.mark.parametrize("command", ["lower", "compare"])
    def test_open_shapes_are_asked_for_once(self, run: Run, models: Path, command: str) -> None:
        code, out, _ = run(command, models / "rule_symbolic.onnx")
        assert code == 1
        assert out.count("refused: ") == 2
        assert out.count(f"open: give sizes, as in {join(['--input-shapes', 'x:1,16,8'])} (an example).") == 1

    def test_the_reference_takes_part_by_itself(self, run: Run, models: Path) -> None:
        code, out, _ = run("compare", models / "rule_coalesce.onnx", "--executors", "dml-emulator")
        assert (code, out.splitlines()[-1].split(": ")[1]) == (0, "3 equal")

    def test_inputs_of_the_wrong_type_or_shape_are_refused(self, run: Run, models: Path, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", np.zeros((4, 3, 5)))
        _, _, err = run("compare", models / "rule_coalesce.onnx", "--input", f"x={tmp_path / 'x.npy'}")
        assert "input 'x' needs float32 elements, got float64" in err
        np.save(tmp_path / "x.npy", np.zeros((4, 3), np.float32))
        _, _, err = run("compare", models / "rule_coalesce.onnx", "--input", f"x={tmp_path / 'x.npy'}")
        assert "input 'x' has rank 3" in err

    def test_a_mismatch_names_node_index_and_a_command(
        self, run: Run, models: Path, monkeypatch: pytest.MonkeyPatch
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
        code, out, _ = run("compare", models / "rule_coalesce.onnx", "--seed", "3")
        assert code == 1
        assert "mismatch: Slice 'slice_a': output 'a' by dml-emulator differs from onnxruntime-cpu: first at" in out
        assert "index [0, 0, 1], computed bytes" in out
        assert f"reproduce: sliceport compare {models / 'rule_coalesce.onnx'} --seed 3 --feature-level 6.4" in out

    def test_without_onnxruntime_the_extra_is_named(
        self, run: Run, models: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
        code, _, err = run("compare", models / "rule_coalesce.onnx")
        assert code == 2
        assert 'pip install "sliceport[onnxruntime]"' in err


def test_importing_loads_no_runtime() -> None:
    code = "import sys, sliceport.cli.main, onnx_ops.lowering; "
    code += "print([name for name in ('onnxruntime', 'openvino', 'torch', 'rich') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout == "[]\n"


class TestHints:
    def test_json_option_names_the_format_option(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["lower", "m.onnx", "--json"]) == 2
        assert capsys.readouterr().err.strip().endswith("unrecognized arguments: --json; write --format json")

    def test_folder_names_batch(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["lower", str(tmp_path)]) == 2
        error = capsys.readouterr().err.strip()
        assert error.endswith(f"is a folder, and lower takes a file; write sliceport batch lower '{tmp_path}' -o RUN.")

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
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, message: str
    ) -> None:
        (tmp_path / "m.onnx").write_bytes(b"no model")
        assert main([*words.replace("M", str(tmp_path / "m.onnx")).split(), "--format", "json"]) == 2
        printed = capsys.readouterr()
        error = json.loads(printed.out)
        assert error["schema_version"] == 1
        assert message in error["error"]
        assert error["error"] in printed.err
