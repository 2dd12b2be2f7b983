"""The lab's known_hosts, which `gpu-node onboard` and `remove` write to as well."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from gpu_node.lab import keys, lock, nodes, roster
from gpu_node.lab.errors import LabError

OTHER = "192.0.2.7 ssh-ed25519 AAAAother\n"


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the host keys are pinned, as `gpu-node lab up` leaves it."""
    monkeypatch.setattr(roster, "STATE", tmp_path / ".lab")
    monkeypatch.setattr(roster, "CLIENT_KEY", tmp_path / ".lab" / "id_ed25519")
    monkeypatch.setattr(roster, "KNOWN_HOSTS", tmp_path / ".lab" / "known_hosts")
    keys.make()
    return roster.KNOWN_HOSTS


def without(text: str, *names: str) -> str:
    """The file after `gpu-node remove` of nodes."""
    gone = {each for name in names for each in (name, roster.NODES[name].address)}
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if line.split(" ")[0] not in gone)


def test_only_the_user_reads_them(pinned: Path) -> None:
    private = [path for path in roster.STATE.rglob("*") if path.is_file() and path.suffix != ".pub"]
    assert {path.name for path in private} == {
        *("id_ed25519", "known_hosts", "v100-02.password", *roster.NODES)
    }
    assert {path.stat().st_mode & 0o777 for path in private} == {0o600}
    assert roster.STATE.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("names", [["v100-02"], [], None])
def test_a_reset_pins_first(
    pinned: Path, names: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of its nodes; another node that was removed stays removed, unless all are named.

    What is right is not replaced: a process may have the file open.
    """
    whole = pinned.read_text()
    address = roster.NODES["v100-02"].address
    pinned.write_text(without(whole, *roster.NODES) + f"{address},v100-02 ssh-ed25519 new\n{OTHER}")
    seen: list[list[str]] = []

    def each(work: Callable[[roster.Node], None], chosen: list[roster.Node]) -> None:
        seen.append([node.name for node in chosen])
        theirs = without(whole, "a100-01", "v100-01")
        assert pinned.read_text() == (OTHER + theirs if names else whole)

    monkeypatch.setattr(lock, "held", nullcontext)
    monkeypatch.setattr(nodes, "require_up", lambda: None)
    monkeypatch.setattr(nodes, "_each", each)
    nodes.reset(names)
    assert pinned.stat().st_mode & 0o777 == 0o600
    before = pinned.stat().st_ino
    nodes.reset(names)
    assert pinned.stat().st_ino == before
    assert seen == [names or [*roster.NODES]] * 2


def test_an_installation_that_cannot_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of root's: the error says where gpu-node is to be installed."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(roster, "STATE", tmp_path / "file" / ".lab")
    with pytest.raises(LabError, match=r"file/\.lab cannot be written \(Not a directory\): inst"):
        keys.make()
