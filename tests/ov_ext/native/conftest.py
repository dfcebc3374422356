"""The operators in C++ as CMake builds them for tests, once for each state of the sources."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from ctypes import CDLL, create_string_buffer
from pathlib import Path

import openvino as ov
import pytest

from ov_ext.native import SOURCE

TESTS = Path(__file__).parent


def _missing() -> str | None:
    if sys.platform == "win32":
        return "the tests build with g++ or clang++"
    if shutil.which("cmake") is None:
        return "there is no cmake"
    if shutil.which(os.environ.get("CXX", "c++")) is None:
        return "there is no C++ compiler"
    return None


def build(folder: Path, *options: str) -> None:
    openvino = Path(ov.__file__).parent / "cmake"
    configure = [
        "cmake",
        "-S",
        str(SOURCE),
        "-B",
        str(folder),
        f"-DOpenVINO_DIR={openvino}",
        "-DCMAKE_BUILD_TYPE=Release",
    ]
    configure += [f"-DSLICEPORT_TESTS={TESTS}", *options]
    for command in (configure, ["cmake", "--build", str(folder), "--parallel", "2"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that CMake built: `libsliceport_openvino.so`, and `tests/`."""
    missing = _missing()
    if missing is not None:
        pytest.skip(missing)
    digest = hashlib.sha256(ov.__version__.encode())
    for file in sorted([SOURCE / "CMakeLists.txt", *(SOURCE / "src").iterdir(), *TESTS.glob("*.cpp")]):
        digest.update(file.read_bytes())
    kept = Path(tempfile.gettempdir(), f"sliceport-tests-{os.getuid()}-{digest.hexdigest()[:16]}")
    if not kept.is_dir():
        folder = tmp_path_factory.mktemp("native")
        build(folder, "-DSLICEPORT_WERROR=ON")
        try:
            shutil.copytree(folder, kept.with_suffix(f".{os.getpid()}"))
            kept.with_suffix(f".{os.getpid()}").rename(kept)
        except OSError:  # another one was there first
            shutil.rmtree(kept.with_suffix(f".{os.getpid()}"), ignore_errors=True)
    return kept


@pytest.fixture(scope="session")
def library(built: Path) -> Path:
    return built / "libsliceport_openvino.so"


Ask = Callable[..., str]


@pytest.fixture(scope="session")
def ask(built: Path) -> Ask:
    """Asks the arithmetic in C++: words in, words out."""
    (path,) = (built / "tests").glob("libslicing_binding.*")
    loaded = CDLL(str(path))
    reply = create_string_buffer(1 << 16)

    def asked(*words: object) -> str:
        loaded.ask(" ".join(map(str, words)).encode(), reply, len(reply))
        answer = reply.value.decode()
        assert not answer.startswith("failed"), answer
        return answer

    return asked
