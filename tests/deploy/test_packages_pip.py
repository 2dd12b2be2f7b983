"""packages_pip.sh, run for real in Python environments: pins are met, and nothing else changes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from deploy.scripts import script
from lab.wheels import wheel
from tests import environments
from tests.deploy.running import SHELLS, Ended
from tests.environments import Environment


@pytest.fixture(autouse=True)
def pip_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip asks the environment's own configuration, as on a node."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def made(tmp_path: Path) -> Environment:
    """An environment with six 1.15 and numpy 1.24, whose pip knows newer ones, too."""
    index = tmp_path / "index"
    index.mkdir()
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
    made = environments.environment(tmp_path / "env")
    (made.prefix / "pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {index}\n")
    made.pip("install", "-q", "six==1.15.0", "numpy==1.24.0", "pyarrow==11.0.0")
    return made


def install(made: Environment, *pins: str, shell: str = "dash") -> Ended:
    """Run it in a kind of shell."""
    told = script("packages_pip", prefix=str(made.prefix), pins=" ".join(pins), allow="yes")
    done = subprocess.run(
        [*SHELLS[shell], "-c", told.get_raw_value()], capture_output=True, text=True, check=False
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def has(made: Environment) -> dict[str, str]:
    """What pip lists, pip's own tools left out."""
    lines = made.pip("list", "--format=freeze").splitlines()
    pairs = dict(line.split("==") for line in lines)
    return {name: pairs[name] for name in sorted(pairs) if name not in ("pip", "setuptools")}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_pin_is_met(made: Environment, shell: str) -> None:
    """The pinned one alone changes, though newer ones of others are there."""
    done = install(made, "pyarrow==15.0.2", shell=shell)
    assert (done.code, done.err) == (0, "")
    assert has(made) == {"numpy": "1.24.0", "pyarrow": "15.0.2", "six": "1.15.0"}


def test_what_it_needs_is_added(made: Environment) -> None:
    """A requirement that is not there comes along; pip's spelling of names is no matter."""
    assert install(made, "ruamel-yaml==0.18").code == 0
    found = has(made)
    assert found["tomlkit"] == "0.12" and found["numpy"] == "1.24.0"


def test_what_would_change_another_is_refused(made: Environment) -> None:
    """pip's reason is told, and everything stays."""
    before = has(made)
    done = install(made, "pyarrow==21.0.0")
    assert done.code == 1
    assert "pip cannot install pyarrow==21.0.0 with all other packages held: ERROR: " in done.err
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
    assert (done.code, "no Python is there; nothing was changed" in done.err) == (1, True)
