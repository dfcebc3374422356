"""The command line. stdout is the result, stderr everything else.

Exit codes: 0 all lowered or equal; 1 a finding (something refused, a mismatch); 2 a usage or input error.
"""

from __future__ import annotations

import argparse
import difflib
import re
import shutil
import signal
import sys
import textwrap
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from onnx_ops import __version__
from sliceport import progress
from sliceport.cli import console
from sliceport.cli.console import emit, emit_json, say
from sliceport.directml.feature_levels import LATEST
from sliceport.errors import ModelError, SliceportError, UsageError

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_ops.compare.run import Report
    from onnx_ops.compare.verify import Verification
    from sliceport.hardening import Hardening

CLEAN, FINDING, BAD_INPUT = 0, 1, 2
TARGETS = ("openvino-cpu", "onnxruntime-dml")
EXECUTORS = {
    "onnxruntime-cpu": "onnxruntime's CPU provider, which computes what is expected and always takes part",
    "dml-emulator": "the descriptors, by the formulas of DirectML's documentation",
    "directml": "the descriptors on the real DirectML",
    "onnxruntime-dml": "each node on onnxruntime's DirectML provider",
}
OPENVINO_EXECUTORS = {
    "openvino": "built-in operators by Model.evaluate, which computes what is expected and always takes part",
    "openvino-cpu": "the same on the CPU plugin",
    "ov_ext": "our operators by Model.evaluate",
    "dml-emulator": "the descriptors, by the formulas of DirectML's documentation",
    "directml": "the descriptors on the real DirectML",
}
_SHAPE = re.compile(r".*:[^:/\\.]*", re.DOTALL)
"""What can be an input's shape and no file: no dot and no slash after the last colon."""
_MODEL_ENDINGS = (".onnx", ".xml")
_MOST_DIGITS = 19


class _Parser(argparse.ArgumentParser):
    listing: Callable[[], str] | None = None
    """Makes what stands at the end of the help."""

    def error(self, message: str) -> NoReturn:
        say(message, self.prog)
        sys.exit(BAD_INPUT)

    def format_help(self) -> str:
        if self.listing is not None:
            self.formatter_class = argparse.RawDescriptionHelpFormatter
            self.epilog = self.listing()
        return super().format_help()

    def print_help(self, file: Any = None) -> None:
        if file is not None:
            super().print_help(file)
        else:
            emit(self.format_help().rstrip("\n"))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        nearest = difflib.get_close_matches(str(value), known, 1)
        hint = f", did you mean {nearest[0]!r}?" if nearest else ";"
        raise argparse.ArgumentError(action, f"{value!r} is not known{hint} known are {', '.join(known)}.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    with console.streams(loud="-vv" in words or words.count("-v") + words.count("--verbose") > 1):
        try:
            return _run(words)
        except console.PipeClosed:
            return CLEAN
        except SliceportError as error:
            say(str(error))
            return BAD_INPUT
        except KeyboardInterrupt:
            say("interrupted")
            return 128 + signal.SIGINT


def _run(words: Sequence[str]) -> int:
    options = _parser().parse_args(_separated(words))
    subject = getattr(options, "model", None)
    try:
        return int(options.run(options) or CLEAN)
    except ModelError as error:
        if subject is None or str(subject) in str(error):
            raise
        raise ModelError(f"'{subject}': {error}") from error
    except (SliceportError, console.PipeClosed):
        raise
    except Exception as error:  # whatever a library raises is about the file that it was given
        if options.verbose > 1:
            traceback.print_exc()
        file = f"'{subject}': " if subject else ""
        say(f"{file}{_unforeseen(error)}")
        return BAD_INPUT


def _unforeseen(error: Exception) -> str:
    """A sentence about an error that nothing foresaw."""
    if isinstance(error, MemoryError | RecursionError):
        kind = "memory" if isinstance(error, MemoryError) else "nesting depth"
        return f"the model exceeds the {kind} of this machine."
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    words = " ".join(str(cause).split())
    said = words if len(words) <= 200 else f"{words[:200]}..."
    return f"this cannot be done with it ({': '.join(filter(None, (type(cause).__name__, said)))}); -vv shows where."


def _separated(words: Sequence[str]) -> list[str]:
    """The words with one value for each `--input-shapes` and `--input`; what cannot be one is an argument by itself."""
    fits = {"--input-shapes": _is_shape, "--input": _is_array}
    separated: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*separated, word, *rest]
        if word not in fits or not rest or rest[0].startswith("-"):
            separated.append(word)
            continue
        separated += [word, rest.pop(0)]
        while rest and not rest[0].startswith("-") and fits[word](rest[0]):
            separated += [word, rest.pop(0)]
    return separated


def _is_shape(word: str) -> bool:
    return _SHAPE.fullmatch(word) is not None


def _is_array(word: str) -> bool:
    return "=" in word and not word.endswith(_MODEL_ENDINGS)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="sliceport", description="Slicing converted between ONNX, OpenVINO and DirectML, exactly.")
    parser.add_argument("--version", action=_Version, help="print the version")
    parser.set_defaults(run=lambda _: parser.print_help(), verbose=0)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_Parser)
    lower = commands.add_parser("lower", help="lower every Slice and Split to DirectML operators")
    compare = commands.add_parser("compare", help="run lowered nodes and compare them, bit for bit")
    for command in (lower, compare):
        command.add_argument("model", metavar="MODEL", help="ONNX, or OpenVINO IR (.xml)")
        _add_shapes(command)
        command.add_argument("--feature-level", default=str(LATEST), metavar="X.Y", help=f"default {LATEST}")
        command.add_argument("--format", choices=("text", "json"), default="text", help="default text")
        command.add_argument("-q", "--quiet", action="store_true", help="print only the last line of the text")
        _add_verbose(command, "print more")
    lower.add_argument(
        "-o", "--output", metavar="DIR", help="also write program.json, DxDispatch files, annotated model"
    )
    lower.add_argument("--overwrite", action="store_true", help="replace DIR if an earlier run wrote it")
    lower.add_argument("--layout", metavar="NHWC", help="how tensors lie in memory, going in and coming out")
    lower.add_argument("--input-layout", metavar="NHWC", help="the same for what is cut alone")
    lower.add_argument("--output-layout", metavar="NHWC", help="the same for what comes out alone")
    lower.add_argument("--views", action="store_true", help="no copy where a slice can be a view of its input's buffer")
    compare.add_argument("--executors", metavar="A,B", help="who takes part; see below")
    compare.listing = _executors_help
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
    _add_verbose(harden, "print more")
    _add_rewrite(commands)
    _add_directml(commands)
    for name, run in (("lower", _lower), ("compare", _compare), ("harden", _harden), ("rewrite", _rewrite)):
        commands.choices[name].set_defaults(run=run)
    return parser


def _add_rewrite(commands: Any) -> None:
    rewrite = commands.add_parser("rewrite", help="make less of an ONNX model's slicing")
    rewrite.add_argument("model", metavar="MODEL.onnx", help="the model")
    rewrite.add_argument("-o", "--output", required=True, metavar="OUT.onnx", help="where the rewritten model goes")
    rewrite.add_argument("--passes", metavar="A,B", help="which passes; see below")
    rewrite.listing = _passes_help
    rewrite.add_argument("--verify", action="store_true", help="run both on onnxruntime's CPU provider and compare")
    rewrite.add_argument("--overwrite", action="store_true", help="replace OUT.onnx and its weights")
    rewrite.add_argument("--format", choices=("text", "json"), default="text", help="default text")
    _add_verbose(rewrite, "also say what is not applied, and why")
    _add_shapes(rewrite)
    _add_arrays(rewrite)


def _add_directml(commands: Any) -> None:
    directml = commands.add_parser("directml", help="the real DirectML: install it, run models on it")
    actions = directml.add_subparsers(dest="action", metavar="ACTION", parser_class=_Parser)
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
    for action in actions.choices.values():
        _add_verbose(action, "print more")
        action.set_defaults(run=_directml)
    directml.set_defaults(verbose=0, run=lambda _: directml.print_help())


def _add_verbose(command: argparse.ArgumentParser, text: str) -> None:
    command.add_argument("-v", "--verbose", action="count", default=0, help=f"{text}; twice: a log on stderr")


def _add_shapes(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--input-shapes",
        action="append",
        default=[],
        metavar="NAME:1,16",
        help="sizes of inputs whose shape the model leaves open; several may follow one another",
    )


def _add_arrays(command: argparse.ArgumentParser) -> None:
    command.add_argument("--seed", type=int, default=0, metavar="N", help="for the random inputs; default 0")
    command.add_argument(
        "--input",
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="an array to run on instead of random data; several may follow one another",
    )


class _Version(argparse.Action):
    def __init__(self, option_strings: Sequence[str], **options: Any) -> None:
        super().__init__(option_strings, **options | {"dest": argparse.SUPPRESS, "nargs": 0})

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        emit(f"sliceport {__version__}")
        parser.exit()


def _executors_help() -> str:
    return (
        f"executors of ONNX models, by default the first two:\n{_listed(EXECUTORS)}\n\n"
        f"executors of OpenVINO models, by default all but the last:\n{_listed(OPENVINO_EXECUTORS)}"
    )


def _passes_help() -> str:
    from onnx_ops.passes import BY_DEFAULT, PASSES

    by_default = {name: _first_line(PASSES[name]) for name in BY_DEFAULT}
    by_name = {name: _first_line(kind) for name, kind in PASSES.items() if name not in BY_DEFAULT}
    return f"passes, by default all of these:\n{_listed(by_default)}\n\nby name only:\n{_listed(by_name)}"


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").partition("\n")[0].rstrip(".").replace("`", "")


def _listed(lines: Mapping[str, str]) -> str:
    """A line for each name, wrapped to the terminal that there may be."""
    indent = max(map(len, lines)) + 4
    columns = max(shutil.get_terminal_size().columns - 2, 40)
    return "\n".join(
        textwrap.fill(text, columns, initial_indent=f"  {name}".ljust(indent), subsequent_indent=" " * indent)
        for name, text in lines.items()
    )


def _chosen(text: str | None, option: str) -> list[str] | None:
    """The names that an option lists; None where it is not given.

    Raises:
        UsageError: It lists none.
    """
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError(f"{option} names nothing; leave it out for what runs by default.")
    return names


def _lower(options: argparse.Namespace) -> int:
    from sliceport.report.text import program_text

    if options.model.endswith(".xml"):
        from ov_ext import lower
    else:
        from onnx_ops.lowering import lower
    progress.say(f"lowering {options.model}")
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
        say(f"wrote {options.output}")
    if options.format == "json":
        emit_json(program.to_json())
    else:
        _emit_text(program_text(program, verbose=options.verbose > 0, columns=console.width()), options.quiet)
    return FINDING if program.summary["refused"] else CLEAN


def _compare(options: argparse.Namespace) -> int:
    from sliceport.report.text import report_text

    progress.say(f"comparing the nodes of {options.model}")
    report = _compared_openvino(options) if options.model.endswith(".xml") else _compared(options)
    if options.format == "json":
        emit_json(report.to_json())
    else:
        _emit_text(report_text(report, columns=console.width()), options.quiet)
    return CLEAN if report.is_clean else FINDING


def _compared(options: argparse.Namespace) -> Report:
    from onnx_ops.compare.inputs import load_array
    from onnx_ops.compare.run import DEFAULT_EXECUTORS, compare

    return compare(
        options.model,
        input_shapes=_input_shapes(options.input_shapes),
        inputs=dict(map(load_array, options.input)),
        executors=_chosen(options.executors, "--executors") or DEFAULT_EXECUTORS,
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
        executors=_chosen(options.executors, "--executors") or DEFAULT_EXECUTORS,
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
    progress.say(f"rewriting {options.model}")
    model = read_model(options.model)
    report = harden(model)
    write_model(model, options.output, overwrite=options.overwrite)
    _print_hardening(report, options)
    return CLEAN if report.is_complete else FINDING


def _harden_directml(options: argparse.Namespace) -> int:
    from onnx_ops.compare.verify_directml import verify_hardening
    from onnx_ops.io import read_model
    from onnx_ops.passes import harden_for_directml

    progress.say(f"rewriting {options.model}")
    model = read_model(options.model)
    report = harden_for_directml(model)
    verified = _write_onnx(model, options, verify_hardening)
    if options.format == "json":
        emit_json(report.to_json() | (verified.to_json() if verified else {}))
    else:
        emit("\n".join([str(report), *([str(verified)] if verified else [])]))
    is_equal = verified is None or verified.is_equal
    return CLEAN if report.is_complete and is_equal else FINDING


def _rewrite(options: argparse.Namespace) -> int:
    from onnx_ops.compare.verify import verify_rewriting
    from onnx_ops.io import read_model
    from onnx_ops.passes import BY_DEFAULT, rewrite

    passes = _chosen(options.passes, "--passes")
    progress.say(f"rewriting {options.model}")
    model = read_model(options.model)
    report = rewrite(model, passes or BY_DEFAULT)
    verified = _write_onnx(model, options, verify_rewriting)
    if options.format == "json":
        emit_json(report.to_json() | (verified.to_json() if verified else {}))
    else:
        emit("\n".join([report.text(verbose=options.verbose > 0), *([str(verified)] if verified else [])]))
    return CLEAN if verified is None or verified.is_equal else FINDING


def _write_onnx(
    model: ir.Model, options: argparse.Namespace, verify: Callable[..., Verification]
) -> Verification | None:
    """Write a rewritten model; with --verify only if it passes."""
    from onnx_ops.compare.inputs import load_array
    from onnx_ops.compare.verify import write_verified
    from onnx_ops.write import write_model

    if not options.verify:
        write_model(model, options.output, source=options.model, overwrite=options.overwrite)
        say(f"wrote {options.output}")
        return None
    verified = write_verified(
        model,
        options.output,
        verify,
        source=options.model,
        overwrite=options.overwrite,
        input_shapes=_input_shapes(options.input_shapes),
        inputs=dict(map(load_array, options.input)),
        seed=_seed(options),
    )
    is_not = "" if verified.is_equal else ", because the rewritten model computes something else"
    say(f"{'wrote' if verified.is_equal else 'did not write'} {options.output}{is_not}")
    return verified


def _print_hardening(report: Hardening, options: argparse.Namespace) -> None:
    say(f"wrote {options.output}")
    if options.format == "json":
        emit_json(report.to_json())
    else:
        emit(str(report))


def _run_whole(options: argparse.Namespace) -> int:
    from onnx_ops.compare.inputs import load_array
    from onnx_ops.compare.run_model import run_whole
    from onnx_ops.compare.run_output import write_run
    from sliceport.report.text import whole_text

    progress.say(f"running {options.model} on the DirectML provider")
    run = run_whole(
        options.model,
        input_shapes=_input_shapes(options.input_shapes),
        inputs=dict(map(load_array, options.input)),
        against=options.against is not None,
        seed=_seed(options),
    )
    if options.output is not None:
        write_run(run, options.output, overwrite=options.overwrite)
        say(f"wrote {options.output}")
    if options.format == "json":
        emit_json(run.to_json())
    else:
        emit(whole_text(run, columns=console.width()))
    return CLEAN if run.is_clean else FINDING


def _seed(options: argparse.Namespace) -> int:
    if options.seed < 0:
        raise UsageError(f"the seed must not be negative, got {options.seed}.")
    return int(options.seed)


def _directml(options: argparse.Namespace) -> int:
    if options.action == "run":
        return _run_whole(options)
    from sliceport.directml.device import install, status

    if options.action == "install":
        lacking = install.missing(full=options.full)
        if lacking is not None and options.if_possible:
            say(f"DirectML cannot be installed here: {lacking}")
            return CLEAN
        folder = install.install(say, full=options.full)
        emit(f"DirectML is installed in {folder}")
        return CLEAN
    if options.action == "uninstall":
        emit("DirectML is removed" if install.uninstall() else "DirectML was not installed")
        return CLEAN
    progress.say("starting DirectML")
    report = status.status(full=options.full)
    if options.format == "json":
        emit_json(report)
    else:
        emit(status.status_text(report))
    return CLEAN if report["self_test"] == "passed" else FINDING


def _emit_text(text: str, quiet: bool) -> None:
    emit(text.rsplit("\n", 1)[-1] if quiet else text)


def _input_shapes(texts: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The shapes written as `NAME:1,3,224,224`, brackets optional; `NAME:` alone is a scalar."""
    shapes = {}
    for text in texts:
        name, colon, dims = text.rpartition(":")
        listed = [dim.strip() for dim in dims.strip("[]").split(",")] if dims.strip("[]") else []
        if not colon or not name or not all(dim.isdecimal() and len(dim) < _MOST_DIGITS for dim in listed):
            raise UsageError(
                f"input shape {text!r} must be written NAME:1,3,224,224 with sizes that are integers from 0 up."
            )
        if name in shapes:
            raise UsageError(f"input {name!r} is given two shapes.")
        shapes[name] = tuple(map(int, listed))
    return shapes


if __name__ == "__main__":
    sys.exit(main())
