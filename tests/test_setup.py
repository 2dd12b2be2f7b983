"""What `make` installs for each target: packages of apt, and the locked packages of .venv."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[1]
LOCK, DEV_LOCK = "requirements.lock", "requirements-dev.lock"
READY, READY_DEV = ".venv/.ready", ".venv/.ready-dev"
# Makes an environment with a python that notes how it is called, and fails for the file in `fails`.
PYTHON = """#!/bin/sh
mkdir -p .venv/bin
cat >.venv/bin/python <<'END'
#!/bin/sh
echo "$*" >>calls
case "$*" in
*"$(cat fails 2>/dev/null || echo nothing)"*) exit 1 ;;
*lab/uv.txt*)
    [ ! -e uv ] || { cp uv .venv/bin/uv && chmod 755 .venv/bin/uv; }
    ;;
esac
END
chmod 755 .venv/bin/python
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the files that `make` reads, and a stand-in for Python."""
    names = ("Makefile", "pyproject.toml", LOCK, DEV_LOCK, "lab/environment.sh", "lab/uv.txt")
    for name in (*names, "bench/requirements.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    (tmp_path / "python").write_text(PYTHON)
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def planned(checkout: Path, *targets: str) -> tuple[list[str], list[str]]:
    """Return the groups of needs.tsv, and the marks, of which `make` would see to each."""
    variables = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    done = subprocess.run(
        ["make", "-n", *targets],
        cwd=checkout,
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    (groups,) = re.findall(r"install\.sh install(.*)$", done.stdout, re.MULTILINE)
    return groups.split(), re.findall(r"environment\.sh \S+ (\S+)", done.stdout)


@pytest.mark.parametrize(
    ("targets", "groups", "marks"),
    [
        ("", "setup lab", [READY]),
        ("demo", "setup lab", [READY]),
        ("picture", "setup lab", [READY]),
        ("setup", "setup", [READY]),
        ("setup-dev", "setup lab kernel tests bench", [READY, READY_DEV]),
        ("test", "setup tests", [READY, READY_DEV]),
        ("test-slow", "setup lab kernel slurm slow tests bench", [READY, READY_DEV]),
        ("slurm", "setup slurm tests", [READY, READY_DEV]),
        ("slow", "setup slow tests", [READY, READY_DEV]),
        ("check", "setup", [READY, READY_DEV]),
        ("quick", "setup tests", [READY, READY_DEV]),
        ("lab", "setup lab tests", [READY, READY_DEV]),
        ("speed", "setup tests bench", [READY, READY_DEV]),
        ("bench", "setup bench", [READY]),
        ("test-real-wheels", "setup tests", [READY, READY_DEV]),
        ("release", "setup", [READY, READY_DEV]),
        ("setup check", "setup", [READY, READY_DEV]),
        ("demo quick", "setup lab tests", [READY, READY_DEV]),
    ],
)
def test_a_target_installs_what_it_needs(
    checkout: Path, targets: str, groups: str, marks: list[str]
) -> None:
    """`make setup` alone brings no podman and no qemu; the commands need no tool of the tests."""
    assert planned(checkout, *targets.split()) == (groups.split(), marks)


def environment(checkout: Path, mark: str, *files: str) -> tuple[int, str, list[str]]:
    """Run the script as `make` does; return its exit code, its messages and the calls of pip."""
    (checkout / "calls").unlink(missing_ok=True)
    done = subprocess.run(
        ["sh", "lab/environment.sh", "./python", mark, *files],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
    )
    calls = checkout / "calls"
    return done.returncode, done.stderr, calls.read_text().splitlines() if calls.exists() else []


# For the commands, and for the tools of the tests.
SETUP = (READY, LOCK, "pyproject.toml")
SETUP_DEV = (READY_DEV, DEV_LOCK, READY)


def test_the_environment_is_made_once(checkout: Path) -> None:
    """The tools of the tests are added to it; the second run of each does nothing."""
    options = "-qq --disable-pip-version-check"
    assert environment(checkout, *SETUP) == (
        0,
        "set-up: making .venv\n",
        [
            f"-m pip install --require-hashes -r lab/uv.txt {options}",
            f"-m pip install --require-hashes -r {LOCK} {options}",
            f"-m pip install --no-deps --no-build-isolation -e . {options}",
        ],
    )
    assert environment(checkout, *SETUP) == (0, "", [])
    (checkout / ".venv" / "kept").touch()
    assert environment(checkout, *SETUP_DEV) == (
        0,
        "set-up: adding the tools of the tests to .venv\n",
        [
            f"-m pip install --require-hashes -r lab/uv.txt {options}",
            f"-m pip install --require-hashes -r {DEV_LOCK} {options}",
        ],
    )
    assert environment(checkout, *SETUP_DEV) == (0, "", [])
    assert environment(checkout, *SETUP) == (0, "", [])
    assert (checkout / ".venv" / "kept").exists()


@pytest.mark.parametrize("code", [0, 1])
def test_uv_installs_what_it_can(checkout: Path, code: int) -> None:
    """pip installs the lock where uv fails, and then alone reports why."""
    (checkout / "uv").write_text(f'#!/bin/sh\necho "uv $*" >>calls\necho no >&2\nexit {code}\n')
    ended, messages, calls = environment(checkout, *SETUP)
    assert (ended, messages) == (0, "set-up: making .venv\n")
    assert f"uv pip install --quiet --python .venv/bin/python --require-hashes -r {LOCK}" in calls
    assert any(f"-m pip install --require-hashes -r {LOCK}" in each for each in calls) == code


def test_a_new_lock_makes_it_anew(checkout: Path) -> None:
    """Without the tools of the tests, which the next test run adds."""
    environment(checkout, *SETUP)
    environment(checkout, *SETUP_DEV)
    later = (checkout / READY_DEV).stat().st_mtime + 1
    os.utime(checkout / LOCK, (later, later))
    assert environment(checkout, *SETUP)[1] == "set-up: making .venv\n"
    assert not (checkout / READY_DEV).exists()


@pytest.mark.parametrize("lock", [LOCK, DEV_LOCK])
def test_a_lock_that_cannot_be_installed(checkout: Path, lock: str) -> None:
    """The last line names it; the next run tries again."""
    if lock == DEV_LOCK:
        environment(checkout, *SETUP)
    (checkout / "fails").write_text(lock)
    files = SETUP if lock == LOCK else SETUP_DEV
    for _ in range(2):
        code, messages, _calls = environment(checkout, *files)
        assert code == 1 and messages.splitlines()[-1] == (
            f"set-up: pip cannot install {lock}; is the package index reachable?"
        )
    (checkout / "fails").unlink()
    assert environment(checkout, *files)[0] == 0


def locked(name: str) -> dict[str, str]:
    """Return the packages of a lock: each line with its release, and its hashes.

    A lock names no index: pip asks the one that this machine is configured for.
    """
    text = (REPOSITORY / name).read_text()
    assert not re.search(r"https?:|--(?:extra-)?index|--find-links", text)
    found = re.findall(r"^(\S+==[^\\\n]+?) \\\n((?:    --hash=\S+(?: \\)?\n)+)", text, re.MULTILINE)
    assert len(found) == len(re.findall(r"^[^ #\n]", text, re.MULTILINE))
    return {pin: hashes for pin, hashes in found}


def test_the_commands_are_locked_without_the_tools_of_the_tests() -> None:
    """The same releases in both locks; a tool of the tests in one of them alone."""
    runtime, dev = locked(LOCK), locked(DEV_LOCK)
    names = {canonicalize_name(pin.partition("==")[0]) for pin in runtime}
    assert {"pyinfra", "paramiko", "rich", "setuptools"} <= names
    assert names.isdisjoint({"pytest", "mypy", "ruff", "hypothesis", "twine", "build"})
    releases = {pin.partition(" ;")[0]: hashes for pin, hashes in dev.items()}
    for pin, hashes in runtime.items():
        assert releases.get(pin.partition(" ;")[0]) == hashes, pin
