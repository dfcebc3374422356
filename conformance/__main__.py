"""`python -m conformance`: `run` engines on the cases and write the reports, or `hunt` with random graphs on one."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from conformance.cases import Case, make_portable, read_cases
from conformance.engine import NAMES, Engine, load_engines
from conformance.reports import EngineResults, write_json, write_junit, write_page
from conformance.runner import CannotLoad, run_engine

BUILD = Path("build/conformance")


def main(words: list[str] | None = None) -> int:
    """Run the command line and return its exit status: 0, or 1 if an engine cannot be installed or loaded.

    Raises:
        SystemExit: An option, an engine or the folder of cases is wrong.
        CalledProcessError: `sliceport cases` fails.
    """
    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run engines on the cases")
    run.add_argument("--engines", default="all", metavar="NAMES", help=f"comma-separated, of {', '.join(NAMES)}")
    run.add_argument("--cases", type=Path, metavar="DIR", help="a folder of sliceport cases; by default one is made")
    run.add_argument("--portable", action="store_true", help="also run the models in the portable form")
    run.add_argument("--timeout", type=float, default=60, metavar="S", help="seconds for one case; 60 by default")
    hunt = commands.add_parser("hunt", help="run random graphs on an engine, and keep what comes out wrong")
    hunt.add_argument("engine", metavar="ENGINE", help="an engine of `run`")
    hunt.add_argument("--minutes", type=float, default=10, metavar="M", help="the time; 10 by default")
    hunt.add_argument("--seed", type=int, default=0, metavar="N", help="the first seed of a new hunt; 0 by default")
    hunt.add_argument("--timeout", type=float, default=20, metavar="S", help="seconds for one graph; 20 by default")
    hunt.add_argument("--hunts", type=Path, default=BUILD / "hunts", metavar="DIR", help="the folder of all hunts")
    for each in (run, hunt):
        each.add_argument(
            "--environments", type=Path, default=BUILD / "environments", metavar="DIR", help="where engines are"
        )
    run.add_argument("--results", type=Path, default=BUILD / "results", metavar="DIR", help="earlier results to reuse")
    run.add_argument("--page", type=Path, metavar="FILE", help="also write the page, such as docs/conformance.md")
    options = parser.parse_args(words)
    if options.command == "hunt":
        (engine,) = load_engines([options.engine])
        return hunt_engine(engine, options)
    cases = read_cases(options.cases or export_cases(BUILD / "cases"))
    to_rewrite = [case for case in cases if options.portable and case.format == "onnx"]
    portable = [make_portable(case, options.results / "portable") for case in to_rewrite]
    reports, failures = [], 0
    for engine in load_engines(options.engines.split(",")):
        try:
            reports.append(run_forms(engine, cases, portable, options))
        except (CannotLoad, OSError, subprocess.CalledProcessError) as error:
            print(f"{engine.title}: not run: {error}", file=sys.stderr)
            failures += 1
    write_json(reports, options.results / "conformance.json")
    write_junit(reports, cases, options.results / "conformance.xml")
    if options.page is not None:
        write_page(reports, cases, options.page)
    return int(failures > 0)


def hunt_engine(engine: Engine, options: argparse.Namespace) -> int:
    """Hunt on one engine, print the counts, and return 1 if a failure is new.

    Raises:
        CannotLoad: See `run_engine`.
        CalledProcessError, OSError: See `Engine.python`.
    """
    from conformance.hunt import Hunt

    folder = options.hunts / engine.name
    hunt = Hunt(engine, folder, engine.python(options.environments), options.timeout)
    counts = hunt.run(options.minutes, options.seed)
    for outcome, count in counts.most_common():
        print(f"{count:7} {outcome}")
    print(f"{counts.total()} graphs on {engine.title} {engine.version}; new failures are in {folder / 'new'}")
    return int(any(outcome.startswith("new") for outcome in counts))


def export_cases(folder: Path) -> Path:
    """Write the cases of the installed sliceport into a folder, replace earlier ones, and return the folder.

    Raises:
        CalledProcessError: `sliceport cases` fails.
    """
    command = [sys.executable, "-m", "sliceport", "cases", "--export", str(folder), "--overwrite"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return folder


def run_forms(engine: Engine, cases: list[Case], portable: list[Case], options: argparse.Namespace) -> EngineResults:
    """Run the cases as written and the `portable` ones, print the counts, and return the results.

    The engine is installed first if that is needed. The verdicts are kept in a file of `options.results` for each form.

    Raises:
        CannotLoad: See `run_engine`.
        CalledProcessError: See `Engine.python`.
        OSError: See `Engine.python`.
    """
    options.results.mkdir(parents=True, exist_ok=True)
    python = engine.python(options.environments)
    report = EngineResults(engine.name, engine.title, engine.version, engine.description)
    for form, cases_of_form in (("written", cases), ("portable", portable)):
        readable = [case for case in cases_of_form if case.format in engine.formats]
        if readable:
            file = options.results / f"{engine.name}.{form}.jsonl"
            report.forms[form] = run_engine(engine, readable, python, file, options.timeout)
            counts = ", ".join(f"{count} {verdict}" for verdict, count in sorted(report.count(form).items()))
            print(f"{engine.title} {engine.version}, {form}: {counts}", flush=True)
    return report


if __name__ == "__main__":
    sys.exit(main())
