"""`sliceport batch`: a command over many models, and reports of such runs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sliceport.cli import console
from sliceport.cli.batch_progress import Progress
from sliceport.cli.console import emit, emit_json, say
from sliceport.cli.pages import check_page_files, write_pages
from sliceport.cli.parser import Commands, Parser
from sliceport.commands.command import NAMES, Command, load
from sliceport.commands.options import add_format, add_verbose, parse_seconds, parse_size
from sliceport.report.table import printable
from sliceport.sandbox import progress

if TYPE_CHECKING:
    from sliceport.batch.compare_runs import RunComparison
    from sliceport.batch.run import Batch
    from sliceport.batch.run_folder import Run
    from sliceport.batch.summary import Summary


def add(commands: Commands) -> None:
    """Add `sliceport batch` to the parser."""
    batch = commands.add_parser("batch", help="run a command over many models; report and compare such runs")
    members: Commands = batch.add_subparsers(dest="member", metavar="COMMAND")
    for command in map(load, NAMES):
        _add_options(members.add_parser(command.name, help=command.help), command)
    _add_report(members.add_parser("report", help="report a run again, join the shards of a run, or compare two runs"))


def _add_options(parser: Parser, command: Command) -> None:
    parser.add_argument("sources", nargs="+", metavar="SOURCE", help="files, folders, globs, @lists, URLs of fsspec")
    parser.add_argument("-o", "--output", required=True, metavar="RUN", help="folder or URL of the results")
    run = parser.add_argument_group("the run")
    run.add_argument(
        "--jobs", type=_parse_jobs, metavar="N", help="models to run at once; default: the number of cores"
    )
    run.add_argument(
        "--timeout", default="300", metavar="S", help="limit for a model, in seconds; default 300; 0 disables the limit"
    )
    run.add_argument(
        "--memory", default="4G", metavar="SIZE", help="limit for a process; default 4G; 0 disables the limit"
    )
    run.add_argument("--manifest", metavar="FILE", help="a file with options for single models, in TOML or JSON lines")
    run.add_argument("--shard", metavar="I/N", help="run only part I of N of the models")
    run.add_argument("--retry", action="store_true", help="also run models that failed in an earlier run")
    run.add_argument("--dry-run", action="store_true", help="list the models and bad sources; run nothing")
    run.add_argument("--cluster", metavar="URL", help="run on the workers of a cluster: dask://HOST:PORT")
    if command.writes == "if asked":
        run.add_argument("--write", action="store_true", help=f"also keep the files that {command.name} -o writes")
    _add_html_options(parser)
    add_format(parser)
    add_verbose(parser, "print a line for each model on stderr")
    command.add_options(parser)
    parser.listing = command.list_choices
    parser.set_defaults(run=lambda options: _run_command(options, command))


def _add_html_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--html", metavar="FILE", help="also write a report as one HTML file")
    command.add_argument("--overwrite", action="store_true", help="replace the file of --html")


def _add_report(command: Parser) -> None:
    command.add_argument("runs", nargs="+", metavar="RUN", help="a run, two to compare, or all shards of one")
    _add_html_options(command)
    add_format(command)
    command.set_defaults(run=_report)


def _run_command(options: argparse.Namespace, command: Command) -> int:
    from sliceport.batch.run import run_batch

    check_page_files(options)  # raises an error before the run if the page cannot be written
    batch = _read_batch(options, command)
    if options.dry_run:
        return _print_models(batch, options)
    progress_line = Progress(lists=options.verbose > 0)
    finished = run_batch(batch, begin=progress_line.set_total, observe=progress_line.add)
    if batch.manifest is not None:
        for sentence in batch.manifest.describe_unused():
            say(sentence)
    say(f"wrote {options.output}")
    return _emit(finished.run, finished.summary, options, finished.summary.exit_code)


def _print_models(batch: Batch, options: argparse.Namespace) -> int:
    """Print the models that a run would process, and the bad sources. Return the exit code. Write no results."""
    from sliceport.batch.run import list_models

    models, bad = list_models(batch)
    if options.format == "json":
        sources = [{"source": source.name, "reason": source.reason} for source in bad]
        emit_json({"schema_version": 1, "models": models, "bad_sources": sources})
    else:
        for model in models:
            emit(printable(model))
        for source in bad:
            say(source.reason)
    return 2 if bad else 0


def _read_batch(options: argparse.Namespace, command: Command) -> Batch:
    from sliceport.batch.manifest import read_manifest
    from sliceport.batch.run import Batch
    from sliceport.batch.sources import parse_shard
    from sliceport.batch.task import Job

    arguments = command.read_options(options)
    command.check_names(arguments)
    job = Job(
        command=command.name,
        root=options.output,
        options=arguments,
        timeout=parse_seconds(options.timeout),
        memory=parse_size(options.memory),
        writes=getattr(options, "write", False),  # only commands that write files "if asked" have --write
        retries=options.retry,
    )
    return Batch(
        job,
        sources=options.sources,
        manifest=None if options.manifest is None else read_manifest(options.manifest),
        jobs=options.jobs,
        shard=None if options.shard is None else parse_shard(options.shard),
        cluster=options.cluster,
    )


def _report(options: argparse.Namespace) -> int:
    """Report one run, join the shards of a run, or compare two runs. Return the exit code."""
    from sliceport.batch.compare_runs import compare_runs
    from sliceport.batch.run_folder import are_distinct_shards, join_shards, read_run
    from sliceport.batch.store import open_store
    from sliceport.batch.summary import Summary

    check_page_files(options)  # raises an error before the results are read if the page cannot be written
    progress.say("reading results")
    runs = [read_run(open_store(root)) for root in options.runs]
    if len(runs) == 2 and not are_distinct_shards(runs):  # two shards are joined below, not compared
        before, after = runs
        comparison = compare_runs(before.rows(), after.rows(), (before.header, after.header))
        if gap := before.describe_gap():
            say(f"the earlier run is incomplete: {gap}")
        summary = Summary.of(after.rows(), after.describe_gap())
        exit_code = 2 if gap or summary.gap else int(not comparison.is_clean)  # 2: a run is incomplete
        return _emit(after, summary, options, exit_code, comparison)
    run = runs[0] if len(runs) == 1 else join_shards(runs)
    summary = Summary.of(run.rows(), run.describe_gap())
    return _emit(run, summary, options, summary.exit_code)


def _emit(
    run: Run, summary: Summary, options: argparse.Namespace, exit_code: int, comparison: RunComparison | None = None
) -> int:
    """Write the page of --html, print the summary, and return the exit code.

    A comparison replaces the summary in text; JSON has both.
    """
    if options.html is not None:
        from sliceport.batch.page import render_page

        progress.say(f"writing {options.html}")
        page = render_page(run.header, run.rows(), comparison, summary.gap)
        write_pages({options.html: page}, overwrite=options.overwrite)
    if options.format == "json":
        compared = {} if comparison is None else {"comparison": comparison.to_json()}
        emit_json(summary.to_json() | {"exit_code": exit_code} | compared)
    else:
        if comparison is not None and summary.gap:  # the text of a summary has this line itself
            emit(f"incomplete: {summary.gap}")
        emit((summary if comparison is None else comparison).text(console.width()))
    return exit_code


def _parse_jobs(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 9999:  # each job takes a thread and a process
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 9999.")
    return int(text)
