"""`sliceport check`: the nodes of models that are invalid, fragile, or have a known defect on an engine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from sliceport.cli import console
from sliceport.cli.console import emit, say
from sliceport.cli.pages import add_pages, check_page_files, write_pages
from sliceport.cli.parser import BAD_INPUT, Commands
from sliceport.cli.work import ADVICE, get_answer, render
from sliceport.commands.check import COMMAND
from sliceport.commands.execute import Request
from sliceport.commands.options import add_limits, add_verbose
from sliceport.errors import SliceportError, UsageError
from sliceport.wording.json_text import to_text


def add(commands: Commands) -> None:
    """Add `sliceport check` to the parser."""
    parser = commands.add_parser("check", help=COMMAND.help)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="ONNX, or OpenVINO IR (.xml); nothing is changed")
    COMMAND.add_options(parser)
    parser.add_argument("--format", choices=("text", "json", "sarif", "github"), default="text", help="default text")
    parser.add_argument("-q", "--quiet", action="store_true", help="print only a line of counts for each model")
    add_verbose(parser, "also print the nodes, and the web page about each finding")
    add_limits(parser)
    add_pages(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace existing files")
    parser.set_defaults(supervise=run)


def run(options: argparse.Namespace, *, is_supervised: bool) -> int:
    """Check each model, print the findings or their counts, write the pages, and return the exit code.

    A child process checks the models if `options` have a limit, or if `is_supervised` is set. A model that cannot be
    checked raises no error, but leads to exit code 2.

    Raises:
        UsageError: An option is not valid, or a file exists and must be kept, or cannot be written.
        MissingExtra: --html needs a package that is not installed.
    """
    pages, arguments = check_page_files(options), COMMAND.read_options(options)
    if len(options.models) > 1 and pages["model_explorer"] is not None:
        raise UsageError(f"--model-explorer takes one model, got {len(options.models)}.")
    arguments |= {"model_explorer": pages["model_explorer"]}
    files: dict[str, str] = {}
    results: list[dict[str, Any]] = []
    is_clean = True
    for model in options.models:
        request = Request(
            "check", model, arguments, partial(render, form="json"), verbose=options.verbose, advice=ADVICE
        )
        try:
            answer = get_answer(request, options, is_supervised=is_supervised)
        except SliceportError as error:
            say(str(error))
            results.append({"model": model, "error": str(error)})
        else:
            results.append({"model": model, **json.loads(answer.rendered)})
            is_clean &= answer.exit_code == 0
            files |= answer.files
    if pages["html"] is not None:
        from sliceport.report.check import check_page

        files[pages["html"]] = check_page(results)
    write_pages(files, overwrite=options.overwrite)
    if text := _format(results, options):
        emit(text, is_raw=options.format != "text")  # the other formats have escapes of their own
    return BAD_INPUT if any("error" in result for result in results) else int(not is_clean)


def _format(results: Sequence[dict[str, Any]], options: argparse.Namespace) -> str:
    """Format the results for --format. The module of a format is imported only if it is used."""
    if options.format == "json":
        return to_text({"schema_version": 1, "models": results})
    if options.format == "sarif":
        from sliceport.report.sarif import sarif_log

        return to_text(sarif_log(results))
    if options.format == "github":
        from sliceport.report.github import github_text

        return github_text(results)
    from sliceport.report.check import check_text, summarize

    if options.quiet:  # errors are already on stderr
        return "\n".join(f"{result['model']}: {summarize(result)}" for result in results if "error" not in result)
    hint = options.engines is None  # suggest --engines all unless the user chose engines
    return check_text(results, verbose=options.verbose > 0, columns=console.width(), hint=hint)
