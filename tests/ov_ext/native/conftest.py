"""The operators in C++, and the programs that use them, which CMake builds once for each state of the sources."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import openvino as ov
import pytest
from openvino.utils.node_factory import NodeFactory

from ov_ext.native import SOURCE, find_library

TESTS = Path(__file__).parent


def _missing() -> str | None:
    if sys.platform == "win32":
        return "the tests build with g++ or clang++"
    if shutil.which("cmake") is None:
        return "there is no cmake"
    if shutil.which(os.environ.get("CXX", "c++")) is None:
        return "there is no C++ compiler"
    return None


def build(folder: Path) -> None:
    openvino = f"-DOpenVINO_DIR={Path(ov.__file__).parent / 'cmake'}"
    configure = ["cmake", "-S", str(SOURCE), "-B", str(folder), openvino, "-DCMAKE_BUILD_TYPE=Release"]
    configure += [f"-DSLICEPORT_TESTS={TESTS}", "-DSLICEPORT_WERROR=ON"]
    for command in (configure, ["cmake", "--build", str(folder), "--parallel", "2"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that CMake built, with the programs in `tests/`. Warnings of the compiler are errors."""
    missing = _missing()
    if missing is not None:
        pytest.skip(missing)
    digest = hashlib.sha256(ov.__version__.encode())
    for file in sorted([SOURCE / "CMakeLists.txt", *(SOURCE / "src").iterdir(), *TESTS.glob("*.cpp")]):
        digest.update(file.read_bytes())
    kept = Path(tempfile.gettempdir(), f"sliceport-tests-{os.getuid()}-{digest.hexdigest()[:16]}")
    if not kept.is_dir():
        folder = tmp_path_factory.mktemp("native")
        build(folder)
        unfinished = kept.with_suffix(f".{os.getpid()}")
        try:
            shutil.copytree(folder, unfinished)
            unfinished.rename(kept)
        except OSError:  # another process was faster
            shutil.rmtree(unfinished, ignore_errors=True)
    return kept


@pytest.fixture(scope="session")
def library() -> Path:
    """Return the library that `python -m ov_ext.native build` built."""
    found = find_library(ov.__version__)
    if found.path is None:
        pytest.skip(found.reason)
    return found.path


@pytest.fixture(scope="session")
def factory(library: Path) -> NodeFactory:
    """Return a factory of the operators in C++."""
    created = NodeFactory()
    created.add_extension(str(library))
    return created
