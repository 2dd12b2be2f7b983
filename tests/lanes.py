"""Runs lanes of the tests in parallel: one line for each lane, the whole output of a failed one.

    python -m tests.lanes LANE...

The first lane that fails ends the others. A test that fails is repeated once, to learn whether it
always fails (tests/conftest.py judges one that passes only then). What a lane prints, its slowest
tests last, is in .lanes/LANE.log.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType

from tests import apart
from tests.examples import ALL

REPOSITORY = Path(__file__).resolve().parents[1]
TESTS = REPOSITORY / "tests"
LOGS = REPOSITORY / ".lanes"
PYTEST = [
    *(sys.executable, "-m", "pytest", "--durations=40", "--durations-min=1"),
    *("--reruns=1", "-rfERs"),
    # A test that never ends is named, with what each thread does, while CI has time left.
    *("--timeout=1500", "--timeout-method=thread"),
]
# Without its notice about the next release of mkdocs; a link that leads nowhere fails.
MKDOCS = ["env", "NO_MKDOCS_2_WARNING=1", sys.executable, "-m", "mkdocs", "build", "--strict", "-q"]
# The time in which an interrupted lane may restore what it uses.
ENDING_SECONDS = 7
# A lane may print a table, which is shown when it has passed.
TABLE = re.compile(r"^\|.*\|$", re.MULTILINE)
SUMMARY = re.compile(r"^(?:=+ )?((?:\d+ \w+,? ?)+)in [\d.]+s", re.MULTILINE)
NOTED = re.compile(r"^(?:SKIPPED \[\d+\]|RERUN) \S.*$", re.MULTILINE)
DOTS = re.compile(r"^[.sxXFER]+ +\[ *\d+%\]$")
PR_SET_PDEATHSIG = 1
# Signals that request the end.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

# It measures seconds, so that it runs before all others.
FIRST = ("speed",)


@dataclass(frozen=True)
class Lane:
    """Commands that run one after the other; `after` are lanes that must have ended before.

    `nice` is the niceness of its processes.
    """

    commands: Sequence[Sequence[str]]
    after: Sequence[str] = FIRST
    nice: int = 0


# `sh` is the first process, which takes in those whose parents have ended.
APART = (
    *("setpriv", "--pdeathsig", "KILL", *apart.APART),
    *("sh", "-c", f'{apart.OWN_TMP} && "$@"; exit $?', "sh"),
)


def _tests(*words: str, after: Sequence[str] = FIRST, nice: int = 0) -> Lane:
    return Lane([[*PYTEST, *words]], after, nice)


def _apart(*words: str, after: Sequence[str] = FIRST) -> Lane:
    before = APART if os.geteuid() == 0 else ()
    return Lane([[*before, *PYTEST, *words]], after, BEHIND)


def _files(*names: str) -> list[str]:
    return [f"tests/e2e/test_{name}.py" for name in names]


def _files_with(text: str) -> list[str]:
    """Return the files of tests that contain a text; to collect all files takes longer."""
    found = (path for path in TESTS.rglob("test_*.py") if text in path.read_text())
    return sorted(str(path.relative_to(REPOSITORY)) for path in found)


# Tests without another marker of a lane (tests/conftest.py).
QUICK = "quick"
# What the quick tests leave out of the shells that a node may have.
SHELLS = "shells and not slow and not pip"
# A case with the marker lab_slow has the marker lab, too.
LAB = "lab and not lab_slow"
# Parts of the quick tests, which run at the same time, as each of them waits for other programs.
# Those of tests/deploy, which take longest, are two.
_DEPLOY = sorted(str(path.relative_to(REPOSITORY)) for path in TESTS.glob("deploy/test_*.py"))
QUICK_PARTS = {
    "quick-facts": ["tests/facts"],
    "quick-deploy": _DEPLOY[::2],
    "quick-deploy-2": _DEPLOY[1::2],
    "quick-cli": ["tests/cli"],
    "quick-drift": ["tests/drift", "tests/onboarding"],
}

# The lab's lanes take longest, as they share nodes, and in a virtual machine that waits for a
# processor time limits pass: lanes without time limits use the processor time that is left. Those
# of the lane slow are long, and it gets a third of what the lab gets.
BEHIND, LATER = 10, 5

# Tests that use v100-02 alone, or all three nodes. All others use the two rpm nodes.
APT_NODE = _files("other_nodes", "packages_deb", "driver_deb", "contact")
ALL_NODES = _files("ssh", "workspace", "preflight", "onboard")
_ON_LAB = ["-m", LAB, "tests/e2e"]

LANES = {
    "speed": Lane([[sys.executable, "-m", "bench", "guard"]], after=()),
    "check": Lane(
        [
            [sys.executable, "-m", "ruff", "format", "--check", "--quiet", "."],
            [sys.executable, "-m", "ruff", "check", "--quiet", "."],
            [sys.executable, "-m", "mypy", "--no-error-summary"],
            [sys.executable, "-m", "tests.audit"],
            [*MKDOCS, "--site-dir", str(LOGS / "site")],
        ],
        nice=BEHIND,
    ),
    "quick": _apart(
        "-m", QUICK, *(f"--ignore={each}" for part in QUICK_PARTS.values() for each in part)
    ),
    **{name: _apart("-m", QUICK, *folders) for name, folders in QUICK_PARTS.items()},
    "lab": _tests(*_ON_LAB, *(f"--ignore={file}" for file in (*APT_NODE, *ALL_NODES))),
    # For tests of launchers, which would wait for it; the others use the lab meanwhile.
    "lab-launcher": Lane([[sys.executable, "-m", "gpu_node.lab.launcher.layer"]]),
    "lab-apt": _tests("-m", LAB, *APT_NODE),
    "lab-all": _tests("-m", LAB, *ALL_NODES, after=["lab", "lab-apt"]),
    "kernel": _tests("-m", "kernel", "tests/kernel"),
    # At its end a table shows how each rule is proved.
    "faults": Lane(
        [
            [*PYTEST, "-m", "faults", "tests/e2e/test_faults.py"],
            [sys.executable, "-m", "docs.proofs"],
        ],
        after=["lab", "lab-apt", "lab-all"],
    ),
    "lab-slow": _tests(
        *("-m", "lab_slow", "tests/e2e", *(f"--ignore={file}" for file in APT_NODE)),
        after=["faults", "lab-slow-apt"],
    ),
    # Beside the faults, which are on the two rpm nodes.
    "lab-slow-apt": _tests("-m", "lab_slow", *APT_NODE, after=["lab", "lab-apt", "lab-all"]),
    "kernel-slow": _tests("-m", "kernel_slow", "tests/kernel", after=["kernel"]),
    "slurm": _tests("-m", "slurm", "tests/slurm"),
    "slow": _tests("-m", "slow", *_files_with("pytest.mark.slow"), nice=LATER),
    "pip": _tests("-m", "pip", "tests/deploy", nice=BEHIND),
    "real-wheels": _tests("-m", "real_wheels", "tests/real_wheels", after=["pip"]),
    "shells": _apart("-m", SHELLS, "tests/", after=["real-wheels"]),
    # What hypothesis drives, again, with all examples instead of a tenth; its plugin marks that.
    "fuzz": Lane(
        [
            [
                *("env", f"{ALL}=1", *PYTEST, "-m", f"hypothesis and {QUICK}"),
                *_files_with("max_examples=examples("),
            ]
        ],
        ["shells"],
        BEHIND,
    ),
    "chaos": Lane([[sys.executable, "-m", "tests.chaos"]], after=()),
}
# Parts of a lane that run side by side; those of the lab by the nodes that their tests use.
GROUPS = {
    "quick": ["quick", *QUICK_PARTS],
    "lab": ["lab", "lab-launcher", "lab-apt", "lab-all"],
    "lab-slow": ["lab-slow", "lab-slow-apt"],
}


@dataclass
class Running:
    """A running lane."""

    name: str
    lane: Lane
    begun: float = field(default_factory=time.monotonic)
    next: int = 0
    process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"

    def step(self) -> int | None:
        """Start the next command if the last one succeeded; return the exit code at the end."""
        code = self.process.poll() if self.process else 0
        if code is None:
            return None
        if code != 0 or self.next == len(self.lane.commands):
            return code
        with self.log.open("ab") as log:
            try:
                with _signals_wait():
                    self.process = subprocess.Popen(
                        self.lane.commands[self.next],
                        cwd=REPOSITORY,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                        preexec_fn=partial(_as_lane, self.lane.nice),
                    )
            except OSError as error:
                log.write(f"{error}\n".encode())
                return 127
        self.next += 1
        return None

    def end(self, number: int) -> None:
        """Send a signal to the lane and all that it has started, which may outlive it."""
        if self.process:
            # A child that belongs to root ends with its parent's pipes.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, number)

    def line(self, what: str) -> str:
        """Return a line about it, with its time."""
        minutes, seconds = divmod(round(time.monotonic() - self.begun), 60)
        return f"{self.name:<16} {minutes:3}:{seconds:02}  {what}"


def _as_lane(nice: int) -> None:
    """Run with a niceness, as if started in a shell."""
    os.nice(nice)
    # Linux shares processors between sessions first, where it does so at all.
    with suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(nice))
    _as_started_manually()


def _as_started_manually() -> None:
    """Reset signals that the caller ignores, as nohup does; end with this process."""
    for number in (*ENDING, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    end_with_parent(signal.SIGINT)


def end_with_parent(number: int) -> None:
    """Have the kernel send this process a signal when its parent has ended, however it did."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


class Ended(Exception):
    """A signal requests the end."""


def run(names: Iterable[str]) -> int:
    """Run the lanes, each as soon as those that it waits for have ended; return the exit code."""
    chosen = [name for each in names for name in GROUPS.get(each, [each])]
    waiting = {name: LANES[name] for name in chosen}
    running: list[Running] = []
    passed = 0
    LOGS.mkdir(exist_ok=True)
    for name in chosen:
        (LOGS / f"{name}.log").unlink(missing_ok=True)
    try:
        while waiting or running:
            busy = {*waiting, *(each.name for each in running)}
            for name in [name for name, lane in waiting.items() if not busy & set(lane.after)]:
                running.append(Running(name, waiting.pop(name)))
            for each in list(running):
                code = each.step()
                if code is None:
                    continue
                running.remove(each)
                if code != 0:
                    return _failed(each, code, running, waiting)
                text = each.log.read_text(errors="replace")
                *_, summary = ["passed", *SUMMARY.findall(text)]
                print(each.line(summary.strip()), flush=True)
                for row in (*TABLE.findall(text), *NOTED.findall(text)):
                    print(row, flush=True)
                if number := re.search(r"(\d+) passed", summary):
                    passed += int(number[1])
            time.sleep(0.1)
    except BaseException:
        _end(running)
        raise
    if passed:
        print(f"tests: {passed} passed, 0 failed", flush=True)
    return 0


def _failed(lane: Running, code: int, others: list[Running], waiting: Iterable[str]) -> int:
    """End all lanes; print what the failed one has printed, and which ones did not end."""
    _end([lane, *others])
    text = lane.log.read_text(errors="replace").splitlines()
    print("\n".join(line for line in text if not DOTS.match(line)), file=sys.stderr)
    unfinished = [*(each.name for each in others), *waiting]
    note = f"; not finished: {', '.join(unfinished)}" if unfinished else ""
    print(lane.line(f"FAILED (exit {code}){note}"), file=sys.stderr, flush=True)
    return 1


def _end(lanes: list[Running]) -> None:
    """Give the lanes a few seconds to restore what they use, then kill the rest."""
    _ignore_signals()
    give_up = time.monotonic() + ENDING_SECONDS
    for each in lanes:
        each.end(signal.SIGINT)
    while time.monotonic() < give_up and any(
        each.process and each.process.poll() is None for each in lanes
    ):
        time.sleep(0.1)
    for each in lanes:
        each.end(signal.SIGKILL)


def _sudo_problem() -> str:
    """Return why the lanes cannot use sudo: they have no terminal on which it could ask."""
    if os.geteuid() == 0 or shutil.which("sudo") is None:
        return ""
    if subprocess.call(["sudo", "-k", "-n", "true"], stderr=subprocess.DEVNULL) == 0:
        return ""
    return "sudo asks for a password; the tests need root, or sudo without a password (NOPASSWD)"


def _ignore_signals() -> None:
    """Ignore a second Ctrl-C while the lanes end."""
    for number in ENDING:
        signal.signal(number, signal.SIG_IGN)


def take_signals() -> None:
    """Raise Ended at the first signal that requests the end; signals ignored before stay so."""
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)


@contextmanager
def _signals_wait() -> Iterator[None]:
    """Let a signal that requests the end wait: a process that is just started would be unknown."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _stop(number: int, frame: FrameType | None) -> None:
    _ignore_signals()
    raise Ended


def main(names: Sequence[str]) -> int:
    """Run the lanes."""
    if unknown := [name for name in names if name not in LANES and name not in GROUPS]:
        print(f"tests: no lane {unknown[0]}; there are: {', '.join(LANES)}", file=sys.stderr)
        return 1
    take_signals()
    try:
        if [*names] != ["check"] and (problem := _sudo_problem()):
            print(f"tests: {problem}", file=sys.stderr)
            return 1
        return run(names)
    except Ended:
        print("tests: interrupted", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
