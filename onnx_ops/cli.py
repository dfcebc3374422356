"""The command line. stdout is the result, stderr everything else.

Exit codes: 0 all lowered or equal; 1 a finding (something refused, a mismatch); 2 a usage or input error.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from onnx_ops.dml.feature_levels import LATEST
from onnx_ops.errors import SliceportError, UsageError

if TYPE_CHECKING:
    from onnx_ops.compare.run import Report
    from onnx_ops.hardening import Hardening

CLEAN, FINDING, BAD_INPUT = 0, 1, 2
TARGETS = ("openvino-cpu", "onnxruntime-dml")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(BAD_INPUT)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.DEBUG if options.verbose > 1 else logging.CRITICAL, stream=sys.stderr)
    try:
        code = int(options.run(options))
        sys.stdout.flush()
    except SliceportError as error:
        print(f"sliceport: {error}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BAD_INPUT
    except KeyboardInterrupt:
        print("sliceport: interrupted", file=sys.stderr)
        return 128 + 2
    except (MemoryError, RecursionError) as error:
        kind = "memory" if isinstance(error, MemoryError) else "nesting depth"
        print(f"sliceport: the model exceeds the {kind} of this machine.", file=sys.stderr)
        return BAD_INPUT
    return code


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="sliceport", description="Slicing carried between ONNX, OpenVINO and DirectML, exactly.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    lower = commands.add_parser("lower", help="lower every Slice and Split to DirectML operators")
    compare = commands.add_parser("compare", help="run lowered nodes and compare them, bit for bit")
    for command in (lower, compare):
        command.add_argument("model", metavar="MODEL", help="ONNX, or OpenVINO IR (.xml)")
        _add_shapes(command)
        command.add_argument("--feature-level", default=str(LATEST), metavar="X.Y", help=f"default {LATEST}")
        command.add_argument("--format", choices=("text", "json"), default="text", help="default text")
        command.add_argument("-q", "--quiet", action="store_true", help="print only the last line of the text")
        command.add_argument("-v", "--verbose", action="count", default=0, help="print more; twice: a log on stderr")
    lower.add_argument(
        "-o", "--output", metavar="DIR", help="also write program.json, DxDispatch files, annotated model"
    )
    lower.add_argument("--overwrite", action="store_true", help="replace DIR if an earlier run wrote it")
    lower.add_argument("--layout", metavar="NHWC", help="how tensors lie in memory, going in and coming out")
    lower.add_argument("--input-layout", metavar="NHWC", help="the same for what is cut alone")
    lower.add_argument("--output-layout", metavar="NHWC", help="the same for what comes out alone")
    lower.add_argument("--views", action="store_true", help="no copy where a slice can be a view of its input's buffer")
    compare.add_argument("--executors", metavar="A,B", help="who takes part; default onnxruntime-cpu,dml-emulator")
    _add_arrays(compare)
    harden = commands.add_parser("harden", help="rewrite the slicing that an engine computes wrongly")
    harden.add_argument("model", metavar="MODEL", help="ONNX; for openvino-cpu OpenVINO IR (.xml), too")
    harden.add_argument("-o", "--output", required=True, metavar="OUT", help="where the rewritten model goes")
    harden.add_argument("--target", choices=TARGETS, help="default openvino-cpu for .xml files, else onnxruntime-dml")
    harden.add_argument("--verify", action="store_true", help="onnxruntime-dml: run both on the real provider")
    harden.add_argument("--overwrite", action="store_true", help="replace OUT and its weights")
    _add_shapes(harden)
    _add_arrays(harden)
    harden.add_argument("--format", choices=("text", "json"), default="text", help="default text")
    harden.set_defaults(verbose=0)
    _add_rewrite(commands)
    _add_directml(commands)
    for name, run in (("lower", _lower), ("compare", _compare), ("harden", _harden), ("rewrite", _rewrite)):
        commands.choices[name].set_defaults(run=run)
    return parser


def _add_rewrite(commands: Any) -> None:
    rewrite = commands.add_parser("rewrite", help="make less of an ONNX model's slicing")
    rewrite.add_argument("model", metavar="MODEL.onnx", help="the model")
    rewrite.add_argument("-o", "--output", required=True, metavar="OUT.onnx", help="where the rewritten model goes")
    rewrite.add_argument("--passes", metavar="A,B", help="which passes; the README lists them")
    rewrite.add_argument("--verify", action="store_true", help="run both on onnxruntime's CPU provider and compare")
    rewrite.add_argument("--overwrite", action="store_true", help="replace OUT.onnx and its weights")
    rewrite.add_argument("--format", choices=("text", "json"), default="text", help="default text")
    rewrite.add_argument("-v", "--verbose", action="count", default=0, help="also say what is not applied, and why")
    _add_shapes(rewrite)
    _add_arrays(rewrite)


def _add_directml(commands: Any) -> None:
    directml = commands.add_parser("directml", help="the real DirectML on Linux, without Windows and without a GPU")
    actions = directml.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=_Parser)
    install = actions.add_parser("install", help="install it into the user's cache, or go on with an installation")
    install.add_argument("--if-possible", action="store_true", help="exit 0 where this machine cannot have it")
    status = actions.add_parser("status", help="whether it is there and works")
    for action in (install, status):
        action.add_argument("--full", action="store_true", help="with every operator of DirectML; about 5 GB")
    status.add_argument("--format", choices=("text", "json"), default="text", help="default text")
    actions.add_parser("uninstall", help="remove everything that was installed")
    run = actions.add_parser("run", help="run a whole model on onnxruntime's DirectML provider")
    run.add_argument("model", metavar="MODEL.onnx", help="the model")
    _add_shapes(run)
    _add_arrays(run)
    run.add_argument("--against", choices=("onnxruntime-cpu",), help="compare with it, and name the nodes that differ")
    run.add_argument("-o", "--output", metavar="DIR", help="also write the outputs as .npy, and report.json")
    run.add_argument("--overwrite", action="store_true", help="replace DIR if an earlier run wrote it")
    run.add_argument("--format", choices=("text", "json"), default="text", help="default text")
    directml.set_defaults(verbose=0, run=_directml)


def _add_shapes(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--input-shapes",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME:1,16",
        help="sizes of inputs whose shape the model leaves open",
    )


def _add_arrays(command: argparse.ArgumentParser) -> None:
    command.add_argument("--seed", type=int, default=0, metavar="N", help="for the random inputs; default 0")
    command.add_argument(
        "--input",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=FILE.npy",
        help="an array to run on instead of random data",
    )


def _lower(options: argparse.Namespace) -> int:
    from onnx_ops.text import program_text

    if options.model.endswith(".xml"):
        from ov_ext import lower
    else:
        from onnx_ops.lowering import lower
    program = lower(
        options.model,
        input_shapes=_input_shapes(options.input_shapes),
        feature_level=options.feature_level,
        input_layout=options.input_layout or options.layout,
        output_layout=options.output_layout or options.layout,
        views=options.views,
    )
    if options.output is not None:
        program.write(options.output, overwrite=options.overwrite)
        print(f"sliceport: wrote {options.output}", file=sys.stderr)
    if options.format == "json":
        print(json.dumps(program.to_json(), indent=2, ensure_ascii=False))
    else:
        _print_text(program_text(program, verbose=options.verbose > 0), options.quiet)
    return FINDING if program.summary["refused"] else CLEAN


def _compare(options: argparse.Namespace) -> int:
    from onnx_ops.text import report_text

    report = _compared_openvino(options) if options.model.endswith(".xml") else _compared(options)
    if options.format == "json":
        print(json.dumps(report.to_json(), indent=2, ensure_ascii=False))
    else:
        _print_text(report_text(report), options.quiet)
    return CLEAN if report.is_clean else FINDING


def _compared(options: argparse.Namespace) -> Report:
    from onnx_ops.compare.inputs import load_array
    from onnx_ops.compare.run import DEFAULT_EXECUTORS, compare

    return compare(
        options.model,
        input_shapes=_input_shapes(options.input_shapes),
        inputs=dict(map(load_array, options.input)),
        executors=options.executors.split(",") if options.executors else DEFAULT_EXECUTORS,
        feature_level=options.feature_level,
        seed=_seed(options),
    )


def _compared_openvino(options: argparse.Namespace) -> Report:
    from ov_ext.compare import DEFAULT_EXECUTORS, compare

    if options.input:
        raise UsageError("--input is for ONNX models: nodes of OpenVINO models run alone, on random data.")
    return compare(
        options.model,
        input_shapes=_input_shapes(options.input_shapes),
        executors=options.executors.split(",") if options.executors else DEFAULT_EXECUTORS,
        feature_level=options.feature_level,
        seed=_seed(options),
    )


def _harden(options: argparse.Namespace) -> int:
    is_ir = options.model.endswith(".xml") or options.output.endswith(".xml")
    target = options.target or (TARGETS[0] if is_ir else TARGETS[1])
    if target == TARGETS[1]:
        return _harden_directml(options)
    from ov_ext import harden, read_model, write_model

    if options.verify:
        raise UsageError("--verify is for onnxruntime-dml.")
    model = read_model(options.model)
    report = harden(model)
    write_model(model, options.output, overwrite=options.overwrite)
    _print_hardening(report, options)
    return CLEAN if report.is_complete else FINDING


def _harden_directml(options: argparse.Namespace) -> int:
    from onnx_ops.compare.inputs import load_array
    from onnx_ops.compare.whole import run_whole
    from onnx_ops.model.load import read_model
    from onnx_ops.model.write import write_model
    from onnx_ops.passes import harden_for_directml
    from onnx_ops.text import whole_text

    model = read_model(options.model)
    report = harden_for_directml(model)
    write_model(model, options.output, source=options.model, overwrite=options.overwrite)
    if not options.verify:
        _print_hardening(report, options)
        return CLEAN if report.is_complete else FINDING
    before, after = (
        run_whole(
            path,
            input_shapes=_input_shapes(options.input_shapes),
            inputs=dict(map(load_array, options.input)),
            against=True,
            seed=_seed(options),
        )
        for path in (options.model, options.output)
    )
    if options.format == "json":
        runs = {"before": before.to_json(), "after": after.to_json()}
        _print_hardening(report, options, **runs)
    else:
        _print_hardening(report, options)
        for title, run in (("before", before), ("after", after)):
            print(f"{title}: " + whole_text(run).rsplit("\n", 1)[-1])
            for finding in run.findings:
                print(f"  {finding.message}")
    return CLEAN if report.is_complete and after.is_clean else FINDING


def _rewrite(options: argparse.Namespace) -> int:
    from onnx_ops.compare.equal_models import differing_outputs
    from onnx_ops.compare.inputs import load_array
    from onnx_ops.model.load import read_model
    from onnx_ops.model.write import write_model
    from onnx_ops.passes import BY_DEFAULT, rewrite

    model = read_model(options.model)
    report = rewrite(model, options.passes.split(",") if options.passes else BY_DEFAULT)
    write_model(model, options.output, source=options.model, overwrite=options.overwrite)
    print(f"sliceport: wrote {options.output}", file=sys.stderr)
    different: list[str] = []
    if options.verify:
        different = differing_outputs(
            options.model,
            options.output,
            input_shapes=_input_shapes(options.input_shapes),
            inputs=dict(map(load_array, options.input)),
            seed=_seed(options),
        )
    if options.format == "json":
        verified = {"different_outputs": different} if options.verify else {}
        print(json.dumps(report.to_json() | verified, indent=2, ensure_ascii=False))
    else:
        print(report.text(verbose=options.verbose > 0))
        if options.verify:
            print(f"outputs that differ: {', '.join(different)}" if different else "all outputs are bit-equal")
    return FINDING if different else CLEAN


def _print_hardening(report: Hardening, options: argparse.Namespace, **more: Any) -> None:
    print(f"sliceport: wrote {options.output}", file=sys.stderr)
    print(json.dumps(report.to_json() | more, indent=2, ensure_ascii=False) if options.format == "json" else report)


def _run_whole(options: argparse.Namespace) -> int:
    from onnx_ops.compare.inputs import load_array
    from onnx_ops.compare.whole import run_whole
    from onnx_ops.compare.whole_output import write_run
    from onnx_ops.text import whole_text

    run = run_whole(
        options.model,
        input_shapes=_input_shapes(options.input_shapes),
        inputs=dict(map(load_array, options.input)),
        against=options.against is not None,
        seed=_seed(options),
    )
    if options.output is not None:
        write_run(run, options.output, overwrite=options.overwrite)
        print(f"sliceport: wrote {options.output}", file=sys.stderr)
    print(json.dumps(run.to_json(), indent=2, ensure_ascii=False) if options.format == "json" else whole_text(run))
    return CLEAN if run.is_clean else FINDING


def _seed(options: argparse.Namespace) -> int:
    if options.seed < 0:
        raise UsageError(f"the seed must not be negative, got {options.seed}.")
    return int(options.seed)


def _directml(options: argparse.Namespace) -> int:
    if options.action == "run":
        return _run_whole(options)
    from onnx_ops.dml.device import install, status

    if options.action == "install":
        lacking = install.missing(full=options.full)
        if lacking is not None and options.if_possible:
            print(f"sliceport: DirectML cannot be installed here: {lacking}", file=sys.stderr)
            return CLEAN
        folder = install.install(lambda step: print(f"sliceport: {step}", file=sys.stderr), full=options.full)
        print(f"DirectML is installed in {folder}")
        return CLEAN
    if options.action == "uninstall":
        print("DirectML is removed" if install.uninstall() else "DirectML was not installed")
        return CLEAN
    report = status.status(full=options.full)
    print(json.dumps(report, indent=2) if options.format == "json" else status.status_text(report))
    return CLEAN if report["self_test"] == "passed" else FINDING


def _print_text(text: str, quiet: bool) -> None:
    print(text.rsplit("\n", 1)[-1] if quiet else text)


def _input_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The shapes written as `NAME:1,3,224,224`, brackets optional; `NAME:` alone is a scalar."""
    shapes = {}
    for text in texts:
        name, colon, dims = text.rpartition(":")
        listed = dims.strip("[]").split(",") if dims.strip("[]") else []
        if not colon or not name or not all(dim.strip().isdecimal() for dim in listed):
            raise UsageError(
                f"input shape {text!r} must be written NAME:1,3,224,224 with sizes that are integers from 0 up."
            )
        if name in shapes:
            raise UsageError(f"input {name!r} is given two shapes.")
        shapes[name] = tuple(map(int, listed))
    return shapes


if __name__ == "__main__":
    sys.exit(main())
