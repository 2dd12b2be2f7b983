"""A page in Debian's Chromium, without a window, by the DevTools protocol on its pipe."""

from __future__ import annotations

import fcntl
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = "chromium"
_SECONDS = 60
_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--remote-debugging-pipe",
)
# Its pipes are 3 and 4; bash alone copies descriptors above 9, which are neither.
_START = 'exec "${@:3}" 3<&"$1" 4>&"$2"'


class Page:
    """A page that a browser shows: it calls the browser, and keeps what that reports."""

    def __init__(self, to: int, of: int) -> None:
        self._to, self._of = to, of
        self._calls = 0
        self._read = b""
        self._session = ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """Call a method of the protocol, and return its result."""
        self._calls += 1
        data: dict[str, Any] = {"id": self._calls, "method": method, "params": parameters}
        if self._session:
            data["sessionId"] = self._session
        os.write(self._to, json.dumps(data).encode() + b"\0")
        while (answer := self._next()).get("id") != self._calls:
            self.events.append(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def of(self, method: str) -> list[dict[str, Any]]:
        """Return what the browser has reported under a name so far."""
        return [each["params"] for each in self.events if each.get("method") == method]

    def show(self, file: Path, width: int = 1280, scheme: str = "light") -> None:
        """Load a file into the page of this width, under a colour scheme, and wait until it is."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.events.clear()
        self.call("Page.navigate", url=file.as_uri())
        while not self.of("Page.loadEventFired"):
            self.events.append(self._next())

    def value(self, expression: str) -> Any:
        """Return the value of an expression in the page; of a promise, what it becomes."""
        words = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        done = self.call("Runtime.evaluate", **words)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def type(self, words: str) -> None:
        """Replace the text of the field that has the focus, as a person does."""
        self.value("document.activeElement.select()")
        if words:
            self.call("Input.insertText", text=words)
            return
        key = {"key": "Delete", "windowsVirtualKeyCode": 46}
        self.call("Input.dispatchKeyEvent", type="rawKeyDown", **key)
        self.call("Input.dispatchKeyEvent", type="keyUp", **key)

    def _next(self) -> dict[str, Any]:
        """Return the browser's next message, which ends with a zero byte."""
        until = time.monotonic() + _SECONDS
        while b"\0" not in self._read:
            ready, _, _ = select.select([self._of], [], [], max(until - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            read = os.read(self._of, 1 << 16)
            assert read, "the browser has ended"
            self._read += read
        message, _, self._read = self._read.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


@contextmanager
def page(folder: Path) -> Iterator[Page]:
    """Start a browser whose files are all in a folder, and end it."""
    (its_in, to), (of, its_out) = _pipe(), _pipe()
    options = (*_OPTIONS, f"--user-data-dir={folder}", "about:blank")
    with (folder / "errors").open("wb") as errors:
        browser = subprocess.Popen(
            ["bash", "-c", _START, "bash", str(its_in), str(its_out), PROGRAM, *options],
            pass_fds=(its_in, its_out),
            env={**os.environ, "HOME": str(folder)},
            stdout=errors,
            stderr=errors,
        )
    os.close(its_in)
    os.close(its_out)
    try:
        yield Page(to, of)
    finally:
        browser.kill()
        browser.wait()
        os.close(to)
        os.close(of)


def _pipe() -> tuple[int, int]:
    """Return the ends of a pipe, to read and to write, above those that the browser expects."""
    first = os.pipe()
    ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in first]
    for end in first:
        os.close(end)
    return ends[0], ends[1]
