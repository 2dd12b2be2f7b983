"""Set-up and end of every test session, in every lane."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import time
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zlib import crc32

import gevent.util
import pytest
from gevent import monkey
from hypothesis import HealthCheck, settings

from tests import spawn
from tests.shells import SH, SHELLS

# As pyinfra's command does, before any import makes a thread or a socket. What is imported from
# pyinfra_cli does it, too: later, and after other imports, as it depends on the tests chosen.
monkey.patch_all()
spawn.install()
# nohup and a shell's `&` have signals ignored, and so would all programs that a test starts.
for _ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(_ignored) is signal.SIG_IGN:
        _default = signal.default_int_handler if _ignored is signal.SIGINT else signal.SIG_DFL
        signal.signal(_ignored, _default)

# What is imported and collected is never garbage: to look for it takes a tenth of the time.
gc.disable()

# Other tests run at the same time: the duration of an example is no measure of the code.
settings.register_profile(
    "beside others", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("beside others")

# No test keeps a report in the home of its user; commands that a test starts inherit this.
_STATE = TemporaryDirectory(prefix="gpu-node-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name

# TEST, DATE, REASON: tests that may pass only when repeated, until the reason is mended.
REPEATED = Path(__file__).with_name("repeated.tsv")

# The programs that tests call, by the marker of their lane; a test without one is quick.
_SSH = "ssh ssh-add ssh-agent ssh-keygen"
_QUICK = f"bash busybox cc dash git rsync setpriv shellcheck {_SSH} sudo unshare"
_LAB = "rsync ssh ssh-keygen"
PROGRAMS = {
    "quick": _QUICK,
    "shells": _QUICK,
    "slow": f"{_QUICK} ip strace tc",
    "lab": _LAB,
    "lab_slow": _LAB,
    "faults": _LAB,
    "slurm": "srun ssh-keygen",
    **dict.fromkeys(("kernel", "kernel_slow", "pip", "real_wheels"), ""),
}


@pytest.fixture(params=SH)
def shell(request: pytest.FixtureRequest) -> str:
    """Each kind of sh that a node may have."""
    return str(request.param)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the scripts of a test look first for programs."""
    monkeypatch.setattr("tests.node_scripts.FIRST_IN_PATH", f"{tmp_path / 'bin'}:")
    return tmp_path / "bin"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all shells but one of each test with `shells`; which one, its name decides.

    A test without a marker of a lane is quick.
    """
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        given = getattr(item, "callspec", None)
        named = (given.params.get(name) for name in ("shell", "sh")) if given else ()
        if shell := next((each for each in named if each in SHELLS), None):
            tests[item.nodeid.replace(shell, "", 1)].append(item)
    for name, found in tests.items():
        chosen = found[crc32(name.encode()) % len(found)]
        for item in found:
            if item is not chosen:
                item.add_marker(pytest.mark.shells)
    for item in items:
        if not any(mark.name in PROGRAMS for mark in item.iter_markers()):
            item.add_marker(pytest.mark.quick)


# The test that runs, and when it is given up.
_running: tuple[pytest.Item, float] | None = None


def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> bool:
    """Have a thread of the kernel's watch the test: gevent's do not run while the hub waits."""
    global _running
    if _running is None:
        monkey.get_original("_thread", "start_new_thread")(_watch, ())
    _running = item, time.monotonic() + settings.timeout
    return True


def pytest_timeout_cancel_timer(item: pytest.Item) -> bool:
    """The next test is given its own time."""
    global _running
    _running = item, float("inf")
    return True


def _watch() -> None:
    sleep = monkey.get_original("time", "sleep")
    while _running is None or time.monotonic() < _running[1]:
        sleep(0.5)
    item, _ = _running
    if capture := item.config.pluginmanager.getplugin("capturemanager"):
        capture.suspend_global_capture(in_=True)
    print(f"\n{item.nodeid} does not end; what each thread and greenlet does:", flush=True)
    gevent.util.print_run_info(file=sys.stdout)
    sys.stdout.flush()
    os._exit(1)


def pytest_collection_finish(session: pytest.Session) -> None:
    """End if a program of the chosen lanes is missing: their tests would fail without a reason.

    -m chooses lanes; a single test may not need all programs.
    """
    gc.freeze()
    gc.enable()
    if not session.config.option.markexpr or session.config.option.collectonly:
        return
    chosen = {mark.name for item in session.items for mark in item.iter_markers()}
    needed = {name for mark in chosen for name in PROGRAMS.get(mark, "").split()}
    if lacking := [name for name in sorted(needed) if shutil.which(name) is None]:
        are = "is" if len(lacking) == 1 else "are"
        message = f"tests: {', '.join(lacking)} {are} not installed; run: make setup-dev"
        pytest.exit(message, returncode=pytest.ExitCode.USAGE_ERROR)


def known() -> dict[str, tuple[str, str]]:
    """Return the date and the reason of each test that may pass only when repeated."""
    rows = [line.split("\t") for line in REPEATED.read_text().splitlines()[1:]]
    return {test: (date, reason) for test, date, reason in rows}


def _repeated(reporter: pytest.TerminalReporter) -> dict[str, pytest.TestReport]:
    """Return the first failure of each test that was repeated."""
    return {each.nodeid: each for each in reporter.stats.get("rerun", ())}


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print why a test failed that was repeated, and what to do if it passed then.

    After the slowest tests: who sees the end of a log alone finds the reason there.
    """
    passed = {each.nodeid for each in terminalreporter.stats.get("passed", ())}
    for name, report in _repeated(terminalreporter).items():
        terminalreporter.section(f"failed, and repeated: {name}")
        terminalreporter.write_line(report.longreprtext)
        if name in passed - known().keys():
            message = f"{name} passed only when repeated; mend it, or add it to tests/repeated.tsv"
            terminalreporter.write_line(message)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail if a test passed only when repeated; give os.close back.

    gevent's own (25.8.1 and later) closes what is no regular file at the hub's next turn. The
    removal of a tree gives it none, and so would keep one descriptor a folder: pytest removes the
    folders of earlier sessions.
    """
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and _repeated(reporter).keys() - known().keys():
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
    os.close = monkey.get_original("os", "close")
