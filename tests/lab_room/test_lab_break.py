"""`gpu-node lab break` on a node that is not converged reports what that does to the fault."""

from collections.abc import Callable
from subprocess import CompletedProcess

import pytest
from click.testing import CliRunner, Result

from gpu_node.cli.lab import lab
from gpu_node.lab import disks, lock, nodes, podman, roster

FAULT = "cmake-links-gone"
CONVERGE = "gpu-node deploy inventories/lab.py --limit a100-01"
TOO = (
    "a100-01 is as found: its own faults are reported, too, and may hide this one. "
    "To see it alone, converge, then break it again.\n"
)
GONE = """\
rm: cannot remove '/usr/local/bin/cmake': No such file or directory
rm: cannot remove '/usr/local/bin/cpack': No such file or directory
"""

Broken = Callable[..., Result]


@pytest.fixture
def marked() -> list[str]:
    """The nodes that were marked as found again."""
    return []


@pytest.fixture
def broken(
    marked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Broken:
    """Run the command on a node in a given state, whose script ends with a given status."""
    monkeypatch.setattr(lock, "file", lambda: tmp_path_factory.getbasetemp() / "gpu_node.lab.lock")
    monkeypatch.setattr(nodes, "require_up", lambda: None)
    monkeypatch.setattr(disks, "mark_complete", marked.append)

    def command(as_found: bool, code: int = 0, stderr: str = "", state: str = "running") -> Result:
        done = CompletedProcess([], code, "", stderr)
        container = podman.Container(roster.NODES["a100-01"].container, state, {})
        monkeypatch.setattr(disks, "is_as_found", lambda _: as_found)
        monkeypatch.setattr(nodes, "execute", lambda *_, **__: done)
        monkeypatch.setattr(podman, "containers", lambda: {container.name: container})
        return CliRunner().invoke(lab, ["break", FAULT])

    return command


def test_a_converged_node_shows_the_fault_alone(broken: Broken, marked: list[str]) -> None:
    result = broken(as_found=False)
    assert (result.exit_code, marked) == (0, [])
    assert result.stdout.endswith("As found again: gpu-node lab reset a100-01\n")


def test_a_node_as_found_shows_its_own_faults_too(broken: Broken) -> None:
    alone, result = broken(as_found=False), broken(as_found=True)
    assert result.exit_code == 0
    assert result.stdout == alone.stdout + TOO


def test_a_node_as_found_is_so_after_the_fault_as_well(broken: Broken, marked: list[str]) -> None:
    """The next fault reports it again, whether this one was injected completely or in part."""
    broken(as_found=True)
    broken(as_found=True, code=1, stderr=GONE)
    assert marked == ["a100-01", "a100-01"]


@pytest.mark.parametrize("as_found", [True, False])
def test_a_script_that_needs_a_converged_node(broken: Broken, as_found: bool) -> None:
    result = broken(as_found, code=1, stderr=GONE)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == (
        f"Error: a100-01: found it not converged "
        "(rm: cannot remove '/usr/local/bin/cpack': No such file or directory); "
        f"allowed: a converged node, for {FAULT}; next: {CONVERGE}"
    )


def test_a_script_that_fails_without_output(broken: Broken) -> None:
    assert (
        "a100-01: found it not converged (exit code 3); allowed: "
        in broken(as_found=True, code=3).stderr
    )


def test_a_node_that_does_not_run_is_no_matter_of_converging(broken: Broken) -> None:
    result = broken(
        as_found=True, code=255, stderr="Error: container state improper", state="exited"
    )
    assert (
        result.stderr.splitlines()[-1]
        == "Error: a100-01: found it exited; allowed: running; next: gpu-node lab up"
    )
