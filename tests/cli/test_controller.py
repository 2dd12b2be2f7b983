"""`nccl: {fetch: controller}`, a whole run on this machine: its pip fetches, the node installs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import environments
from tests.commands import Ended, run
from tests.environments import CU11, CU12
from tests.shells import at_an_empty_home

# Both run pyinfra and the real pip.
pytestmark = pytest.mark.slow

INVENTORY = """data = {{
    "nccl_version": "match-torch",
    "nccl_environments": [{prefix!r}],
    "nccl_fetch": "controller",
}}
hosts = [("@local", data)]
"""


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> environments.Environment:
    """An environment with both wheels, whose own pip finds nothing, in an inventory."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", at_an_empty_home()["PATH"])
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = environments.environment(tmp_path / "env", "torch", CU12, CU11)
    (made.prefix / "pip.conf").write_text("[global]\nno-index = true\n")
    (tmp_path / "here.py").write_text(INVENTORY.format(prefix=str(made.prefix)))
    return made


def converge(made: environments.Environment) -> Ended:
    """Run the deploy here; jobs of this machine are no matter, as nothing of theirs is changed."""
    inventory = str(made.prefix.parent / "here.py")
    disrupt = ("--data", "allow_disruption=true")
    return run("pyinfra", "-y", inventory, "deploy/gpu_node.py", *disrupt)


def wheels(made: environments.Environment) -> list[str]:
    """The NCCL distributions there are."""
    found = made.packages.glob("nvidia_nccl_*.dist-info")
    return sorted(path.name.partition("-")[0] for path in found)


def test_what_the_controller_cannot_get(made: environments.Environment) -> None:
    """The host fails with the reason, and has what it had."""
    before = made.library.read_bytes()
    done = converge(made)
    assert done.code == 1
    assert f"the controller cannot get {CU12} for this node: ERROR: No matching" in done.err
    assert made.library.read_bytes() == before
    assert wheels(made) == ["nvidia_nccl_cu11", "nvidia_nccl_cu12"]


def test_what_the_controller_gets(
    made: environments.Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is installed and proved; the copy is gone, and the next run has nothing to do."""
    monkeypatch.setenv("PIP_FIND_LINKS", str(environments.index()))
    done = converge(made)
    assert done.code == 0, done
    assert wheels(made) == ["nvidia_nccl_cu12"]
    assert made.library.read_bytes() == environments.unpacked(CU12)
    kept = [path.name for path in (made.prefix.parent / "cache" / "gpu-node").iterdir()]
    assert len(kept) == 1 and not list(Path("/var/tmp").glob(f"gpu-node-*-{kept[0]}"))
    done = converge(made)
    assert (done.code, "Fetching" in done.err) == (0, False)
