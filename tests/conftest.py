"""Set-up and end of every test session, in every lane."""

from __future__ import annotations

import os
import shutil
from collections import defaultdict
from contextlib import suppress

import pytest
from gevent import monkey
from hypothesis import HealthCheck, settings

# As pyinfra's command does, before any import makes a thread or a socket. What is imported from
# pyinfra_cli does it, too: later, and after other imports, as it depends on the tests chosen.
monkey.patch_all()

# Other tests run at the same time: the duration of an example is no measure of the code.
settings.register_profile(
    "beside others", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("beside others")

# The programs that tests call, by the marker of their lane; "" is `make quick`.
_QUICK = "bash busybox cc dash git rsync shellcheck ssh ssh-add ssh-agent ssh-keygen unshare"
_LAB = "rsync ssh ssh-keygen"
PROGRAMS = {
    "": _QUICK,
    "slow": f"{_QUICK} ip strace tc",
    "lab": _LAB,
    "lab_slow": _LAB,
    "faults": _LAB,
    "slurm": "srun ssh-keygen",
}


def pytest_sessionstart(session: pytest.Session) -> None:
    """End if a program of the chosen lane is missing: its tests would fail without a reason.

    -m chooses a lane; a single test may not need all programs.
    """
    chosen = session.config.option.markexpr
    if not chosen or session.config.option.collectonly or hasattr(session.config, "workerinput"):
        return
    lacking = [name for name in _needed(chosen) if shutil.which(name) is None]
    if lacking:
        are = "is" if len(lacking) == 1 else "are"
        message = f"tests: {', '.join(lacking)} {are} not installed; run: make setup-dev"
        pytest.exit(message, returncode=pytest.ExitCode.USAGE_ERROR)


def _needed(expression: str) -> list[str]:
    """Return the programs of the lanes that an expression of markers chooses."""
    needed: set[str] = set()
    with suppress(SyntaxError, TypeError):  # pytest has its own words for it
        for mark, programs in PROGRAMS.items():
            if eval(expression, {"__builtins__": {}}, defaultdict(bool, {mark: True})):
                needed.update(programs.split())
    return sorted(needed)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print why a test failed that was repeated, and may have passed then."""
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"failed, and repeated: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Give os.close back, before pytest removes the folders of earlier sessions.

    gevent's own (25.8.1 and later) closes what is no regular file at the hub's next turn. The
    removal of a tree gives it none, and so would keep one descriptor a folder.
    """
    os.close = monkey.get_original("os", "close")
