"""The files in `engines`, each an engine, and their environments.

A file must define `REQUIREMENTS` and `open_engine`, and may define the other names:

    TITLE         the name in reports; by default that of the file
    REQUIREMENTS  packages of pip with pinned versions, the engine first; None for the Python that runs the suite
    NPM           packages of npm with pinned versions, the engine first
    FORMATS       the formats of models that it reads; by default ("onnx",)
    SPILLS        whether a case can damage the process, so that each case needs a process of its own; by default False
    PRELOAD       modules to load once, before the processes of an engine that SPILLS are forked
    LOOSE         whether it stores elements in other types, so that only their values are compared; by default False
    version()     a function that returns the version of the engine; by default that of the first package
    open_engine() a function that loads the engine, and returns a function of a model's file, its inputs by name and the
                  names of its outputs, which returns the list of outputs or raises an exception
"""

from __future__ import annotations

import hashlib
import importlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent
_WORKER_REQUIREMENT = "ml_dtypes>=0.5,<0.7"
"""The package that the worker needs for bfloat16; NumPy comes with it."""
NAMES = tuple(sorted(file.stem for file in (ROOT / "engines").glob("*.py") if file.stem != "__init__"))


@dataclass(frozen=True)
class Engine:
    """An engine, with its file as a module."""

    name: str
    module: ModuleType

    @property
    def title(self) -> str:
        """Its name in reports."""
        return str(getattr(self.module, "TITLE", self.name))

    @property
    def description(self) -> str:
        """The docstring of its file, on one line."""
        return " ".join(str(self.module.__doc__).split())

    @property
    def packages(self) -> list[str]:
        """The pinned packages of pip and npm."""
        return [*(self.module.REQUIREMENTS or []), *getattr(self.module, "NPM", [])]

    @property
    def version(self) -> str:
        """The version of the engine's own package."""
        if hasattr(self.module, "version"):
            return str(self.module.version())
        package = [*getattr(self.module, "NPM", []), *(self.module.REQUIREMENTS or [])][0]
        return str(package.replace("==", "@").rpartition("@")[2])

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats of models that it reads."""
        return getattr(self.module, "FORMATS", ("onnx",))

    @property
    def spills(self) -> bool:
        """Whether each case needs a process of its own."""
        return getattr(self.module, "SPILLS", False)

    @property
    def is_loose(self) -> bool:
        """Whether only the values of elements are compared."""
        return getattr(self.module, "LOOSE", False)

    @property
    def digest(self) -> str:
        """A hash of its file. If the file changes, earlier results do not count any more."""
        return hashlib.sha256(Path(str(self.module.__file__)).read_bytes()).hexdigest()[:16]

    def python(self, environments: Path) -> Path:
        """Return the Python of its environment. Make the environment anew unless it was made for the same packages.

        Raises:
            CalledProcessError: A package cannot be installed.
            OSError: npm is missing, or the environment cannot be written.
        """
        if self.module.REQUIREMENTS is None:
            return Path(sys.executable)
        folder = environments.absolute() / self.name
        python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        stamp, pins = folder / "pinned.txt", "\n".join(self.packages)
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != pins:
            print(f"installing {', '.join(self.packages)}", file=sys.stderr, flush=True)
            subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
            pip = [str(python), "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
            subprocess.run([*pip, _WORKER_REQUIREMENT, *self.module.REQUIREMENTS], check=True)
            packages = getattr(self.module, "NPM", [])
            if packages:  # without scripts, which would load libraries for GPUs
                npm = ["npm", "install", "--silent", "--ignore-scripts", "--prefix", str(folder)]
                subprocess.run([*npm, *packages], check=True)
            stamp.write_text(pins, encoding="utf-8")
        return python


def load_engines(words: list[str]) -> list[Engine]:
    """Return engines by name, or all for `all`.

    Raises:
        SystemExit: A name is unknown.
    """
    names = NAMES if words == ["all"] else words
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise SystemExit(f"unknown engine '{unknown[0]}'; known are {', '.join(NAMES)}")
    return [Engine(name, importlib.import_module(f"conformance.engines.{name}")) for name in names]
