"""A headless Chromium, where the machine has one, driven over a pipe by the DevTools protocol."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

# The protocol speaks on the descriptors 3 and 4 of the browser.
_LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find_chromium() -> str | None:
    """Return the first Chromium of the search path, if any."""
    return next(filter(None, map(shutil.which, NAMES)), None) if os.name == "posix" else None


class Unusable(Exception):
    """The machine has a browser with which nothing can be tested."""


class Page:
    """One tab of a browser of its own, whose profile is kept in a folder."""

    def __init__(self, program: str, profile: Path) -> None:
        to_browser, commands = os.pipe()
        answers, from_browser = os.pipe()
        options = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
            "--disable-dev-shm-usage", "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(to_browser), str(from_browser), program, *options],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._commands = os.fdopen(commands, "wb", buffering=0)
        self._answers = os.fdopen(answers, "rb")
        self._count = 0
        self._pending = b""
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    def _attach(self) -> None:
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in targets if one["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        """End the browser, which does so itself when nobody is left who could command it."""
        self._commands.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._answers.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol, and keep the events that come before its answer."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            data = self._answers.read1(2**20)
            assert data, "the browser ended"
            self._pending += data
        text, _, self._pending = self._pending.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def open(self, path: Path, fragment: str = "") -> None:
        """Load a page from a file and wait until its script says that it is ready."""
        self.call("Page.navigate", url="about:blank")
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri() + fragment)
        self.wait("document.documentElement.dataset.ready === 'yes' || !document.getElementById('trouble').hidden")

    def wait(self, condition: str) -> None:
        """Wait until an expression of JavaScript is true, looking after each frame."""
        for _ in range(6000):
            if self.run(f"document.body !== null && document.readyState === 'complete' && Boolean({condition})"):
                return
            time.sleep(0.01)
        raise AssertionError(f"this did not come true: {condition}")

    def run(self, expression: str) -> Any:
        """Return the value of an expression of JavaScript, or of a promise."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press a key, such as Enter, 13."""
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def show(self, width: int, height: int = 900, *, dark: bool = False, media: str = "") -> None:
        """Set the size of the window in pixels and the colour scheme."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)


@contextmanager
def open_browser(folder: Path) -> Iterator[Page]:
    """Open a browser until the end of the block, with its profile in a folder; `find_chromium` must return one.

    Raises:
        Unusable: The browser does not start, or cannot read files, as in some containers and sandboxes.
    """
    program = find_chromium()
    assert program is not None
    probe = folder / "probe.html"
    probe.write_text("<title>seen</title>", encoding="utf-8")
    try:
        page = Page(program, folder / "profile")
    except (AssertionError, OSError) as error:
        raise Unusable(f"{program} does not start: {error}") from None
    with page:
        page.call("Page.navigate", url=probe.as_uri())
        page.wait("location.href !== 'about:blank'")
        if page.run("document.title") != "seen":
            raise Unusable(f"{program} sees no files in {folder}")
        yield page
