"""packages_pip.sh, run for real in Python environments: pins are met, and nothing else changes."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from gpu_node.deploy.engine.scripts import script
from gpu_node.facts.nccl.state import ASKED
from gpu_node.facts.nccl.state import Environment as Found
from gpu_node.lab.machine import as_root
from gpu_node.lab.wheels import ninja_wheel, wheel
from tests import environments
from tests.environments import Environment
from tests.node_scripts import Ended, run
from tests.shells import SHELLS


@pytest.fixture(autouse=True)
def pip_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip asks the environment's own configuration, as on a node."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of wheels of several versions, some of which require others."""
    index = tmp_path_factory.mktemp("index")
    for name, version, requires in (
        ("six", "1.15.0", []),
        ("six", "1.16.0", []),
        ("numpy", "1.24.0", []),
        ("numpy", "2.0.0", []),
        ("pyarrow", "11.0.0", []),
        ("pyarrow", "15.0.2", ["numpy>=1.16", "six>=1.15"]),
        ("pyarrow", "21.0.0", ["numpy>=2"]),
        ("Ruamel.Yaml", "0.18", ["tomlkit"]),
        ("tomlkit", "0.12", []),
    ):
        wheel(index, name, version, {f"{name.lower()}_of/__init__.py": version.encode()}, requires)
    ninja_wheel(index)
    return index


@pytest.fixture
def made(tmp_path: Path, index: Path) -> Environment:
    """An environment with six 1.15 and numpy 1.24, whose pip knows newer ones, too."""
    made = environments.environment(tmp_path / "env")
    (made.prefix / "pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {index}\n")
    for name in ("six-1.15.0", "numpy-1.24.0", "pyarrow-11.0.0"):
        (wheel,) = index.glob(f"{name}-*.whl")
        environments.unpack(wheel, made)
    return made


def command(made: Environment, *pins: str, allow: str = "yes") -> str:
    """The script for an environment, as the operation yields it."""
    given = {"prefix": str(made.prefix), "pins": " ".join(pins), "allow": allow}
    return script("packages_pip", **given).get_raw_value()


def install(made: Environment, *pins: str, shell: str = "dash", **variables: str) -> Ended:
    """Run it in a kind of shell."""
    done = subprocess.run(
        [*SHELLS[shell], "-c", command(made, *pins)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def facts_of(made: Environment) -> dict[str, str]:
    """Return the packages that the probe reports."""
    reported = subprocess.run(
        [made.python, "-I", "-c", ASKED], capture_output=True, text=True, check=True
    )
    return Found.model_validate_json(reported.stdout).packages


def has(made: Environment) -> dict[str, str]:
    """What is installed, pip left out."""
    found = made.distributions
    return {name: found[name] for name in sorted(found) if name != "pip"}


def test_any_version(made: Environment, shell: str) -> None:
    """A package without a pin, with its program, beside one that pip cannot remove."""
    info = made.packages / "deepspeed-0.14.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: deepspeed\nVersion: 0.14.0\n")
    before = has(made)
    done = install(made, "ninja", shell=shell)
    assert (done.code, done.err) == (0, "")
    assert has(made) == {**before, "ninja": "1.11.1"}
    version = subprocess.run([made.prefix / "bin" / "ninja"], capture_output=True, text=True)
    assert version.stdout == "1.11.1\n"


def test_an_environment_of_uv(made: Environment, shell: str) -> None:
    """It has no pip: that of its base installs into it."""
    before = has(made)
    done = install(made.without_pip(), "pyarrow==15.0.2", shell=shell)
    assert (done.code, done.err) == (0, "")
    assert has(made) == {**before, "pyarrow": "15.0.2"}


def test_a_pin_is_met(made: Environment, shell: str) -> None:
    """The pinned one alone changes, though newer ones of others are there."""
    done = install(made, "pyarrow==15.0.2", shell=shell)
    assert (done.code, done.err) == (0, "")
    assert has(made) == {"numpy": "1.24.0", "pyarrow": "15.0.2", "six": "1.15.0"}


def test_what_changes_is_noted(made: Environment, shell: str, tmp_path: Path) -> None:
    """For restore: what was replaced, and nothing else, where this account runs pip itself."""
    given = {"prefix": str(made.prefix), "pins": "pyarrow==15.0.2", "allow": "yes"}
    folder = tmp_path / "backups" / "RUN"
    done = run(script("packages_pip", **given, backups=str(folder)), shell)
    assert (done.code, done.err) == (0, "")
    noted = (folder / "also").read_text()
    assert [(each[0], each.split()[-1]) for each in noted.splitlines()] == [
        ("-", "pyarrow-11.0.0.dist-info"),
        ("+", "pyarrow-15.0.2.dist-info"),
    ]


def test_what_it_needs_is_added(made: Environment) -> None:
    """A requirement that is not there comes along; pip's spelling of names is no matter."""
    assert install(made, "ruamel-yaml==0.18").code == 0
    found = has(made)
    assert found["tomlkit"] == "0.12" and found["numpy"] == "1.24.0"


def test_what_would_change_another_is_refused(made: Environment) -> None:
    """The error has pip's reason, and everything stays."""
    before = has(made)
    done = install(made, "pyarrow==21.0.0")
    assert done.code == 1
    assert (
        "pip cannot install pyarrow==21.0.0 with all other packages kept at their versions: ERROR: "
        in done.err
    )
    assert (
        "; pyarrow 21.0.0 depends on numpy>=2; The user requested (constraint) numpy==1" in done.err
    )
    assert has(made) == before


def test_two_pins_that_go_together(made: Environment) -> None:
    """They are one request: each alone would be refused."""
    assert install(made, "pyarrow==21.0.0", "numpy==2.0.0").code == 0
    assert has(made) == {"numpy": "2.0.0", "pyarrow": "21.0.0", "six": "1.15.0"}


def test_what_cannot_be_had(made: Environment) -> None:
    """The version that is not in the index is named, and the old one stays."""
    before = has(made)
    done = install(made, "six==9.9")
    assert (done.code, "six==9.9" in done.err) == (1, True)
    assert has(made) == before


def test_no_python(tmp_path: Path) -> None:
    """A folder without one is named."""
    done = install(Environment(tmp_path), "six==1.16.0")
    assert (done.code, "it has no Python; nothing was changed" in done.err) == (1, True)


@pytest.mark.parametrize(
    "point",
    [
        "os.rename pyarrow-11.0.0.dist-info",
        "os.rename pyarrow_of",
        "open pyarrow_of/__init__.py",
        "open pyarrow-15.0.2.dist-info/WHEEL",
        "os.rename pyarrow-15.0.2.dist-info/INSTALLER",
        "os.rename pyarrow-15.0.2.dist-info/RECORD",
    ],
)
def test_killed_at_any_point(made: Environment, tmp_path: Path, point: str) -> None:
    """The next run finishes, though pip takes what is half installed for whole; nothing is left."""
    made.let_be_killed()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    killed = {"KILLED_AT": point, "TMPDIR": str(temporary)}
    assert install(made, "pyarrow==15.0.2", **killed).code == -signal.SIGKILL
    assert list(temporary.iterdir()) == []
    found = facts_of(made)
    assert found.get("pyarrow") in (None, "11.0.0")
    assert not any("~" in name for name in found)
    assert install(made, "pyarrow==15.0.2").code == 0
    assert has(made) == {"numpy": "1.24.0", "pyarrow": "15.0.2", "six": "1.15.0"}
    assert facts_of(made)["pyarrow"] == "15.0.2"
    assert not list(made.prefix.glob(".gpu-node*"))
    assert made.left_by_pip() == []
    record = made.packages / "pyarrow-15.0.2.dist-info" / "RECORD"
    assert "INSTALLER" in record.read_text()  # pip's own, the last that it writes


def test_what_is_installed_is_on_the_disk(made: Environment, tmp_path: Path) -> None:
    """The list before pip begins, and the packages before it is removed: the power may fail."""
    programs, calls = tmp_path / "programs", tmp_path / "calls"
    programs.mkdir()
    for name in ("dd", "sync"):
        help_only = '[ "$*" = --help ] || ' if name == "sync" else ""
        state = f"ls -A {made.prefix} {made.packages} | grep -c 'gpu-node-pip\\|pyarrow-15'"
        text = (
            f'#!/bin/sh\n{help_only}echo "{name} $* $({state})" >>{calls}\nexec /bin/{name} "$@"\n'
        )
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    path = f"{programs}:{os.environ['PATH']}"
    assert install(made, "pyarrow==15.0.2", PATH=path).code == 0
    begun, ended = calls.read_text().splitlines()
    assert begun.startswith("dd ") and "fsync" in begun and begun.endswith(" 1")
    assert ended == f"sync -f {made.prefix} 2"


def test_pip_alone_is_killed(made: Environment) -> None:
    """As by the kernel without free memory: the step fails and reports it."""
    made.let_be_killed()
    point = "open pyarrow-15.0.2.dist-info/WHEEL"
    done = install(made, "pyarrow==15.0.2", KILLED_AT=point, KILLED_ALONE="yes")
    assert (done.code, "pip was killed by signal 9; run again" in done.err) == (1, True)
    assert "pyarrow" not in facts_of(made)
    assert install(made, "pyarrow==15.0.2").code == 0
    assert facts_of(made)["pyarrow"] == "15.0.2"


def test_a_package_in_a_users_home(made: Environment, tmp_path: Path) -> None:
    """It is not the environment's, where the pin is still to be met."""
    home = tmp_path / "home"
    made.pip(
        "install",
        "-q",
        "--target",
        str(home / made.packages.relative_to(made.prefix)),
        "tomlkit==0.12",
    )
    config = made.prefix / "pyvenv.cfg"
    config.write_text(config.read_text().replace("packages = false", "packages = true"))
    assert install(made, "tomlkit==0.12", PYTHONUSERBASE=str(home)).code == 0
    assert facts_of(made)["tomlkit"] == "0.12"


def test_in_use(made: Environment) -> None:
    """While a process has a libnccl mapped nothing is changed, and that process is named."""
    library = made.prefix / "libnccl.so.2"
    library.write_bytes(environments.unpacked(environments.CU12))
    code = f"import ctypes, time; ctypes.CDLL({str(library)!r}); print(1, flush=True)"
    words = [str(made.python), "-c", f"{code}; time.sleep(60)"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as job:
        assert job.stdout is not None and job.stdout.readline() == "1\n"
        done = as_root(["dash", "-c", command(made, "six==1.16.0", allow="no")], check=False)
        job.kill()
    assert (done.returncode, f"pid {job.pid} (" in done.stderr) == (1, True)
    assert has(made)["six"] == "1.15.0"
