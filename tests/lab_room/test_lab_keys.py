"""The lab's known_hosts, which `gpu-node onboard` and `remove` write to as well."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpu_node.lab import keys, lock, nodes, roster
from gpu_node.lab.errors import LabError

GONE = "v100-02"
OTHER = "192.0.2.7 ssh-ed25519 AAAAother\n"


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the host keys are pinned, as `gpu-node lab up` leaves it."""
    monkeypatch.setattr(roster, "STATE", tmp_path)
    monkeypatch.setattr(roster, "CLIENT_KEY", tmp_path / "id_ed25519")
    monkeypatch.setattr(roster, "KNOWN_HOSTS", tmp_path / "known_hosts")
    keys.make()
    return roster.KNOWN_HOSTS


def without(text: str, *names: str) -> str:
    """The file after `gpu-node remove` of nodes."""
    gone = {each for name in names for each in (name, roster.NODES[name].address)}
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if line.split(" ")[0] not in gone)


def test_a_node_that_was_removed_is_pinned_again(pinned: Path) -> None:
    """Another node that was removed stays removed, as it is not named."""
    whole = pinned.read_text()
    pinned.write_text(without(whole, GONE, "a100-01") + OTHER)
    keys.pin([GONE])
    found = pinned.read_text()
    assert sorted(found.splitlines()) == sorted(
        (without(whole, "a100-01") + OTHER).splitlines(),
    )
    assert pinned.stat().st_mode & 0o777 == 0o600


def test_another_key_of_it_goes(pinned: Path) -> None:
    """A node that is as found has the key that the lab gave it."""
    whole = pinned.read_text()
    address = roster.NODES[GONE].address
    pinned.write_text(without(whole, GONE) + f"{address},{GONE} ssh-ed25519 AAAAnew\n")
    keys.pin([GONE])
    assert pinned.read_text() == whole


def test_all_of_them_are_as_the_lab_came_up(pinned: Path) -> None:
    """Also if the file is missing, and whatever else was in it."""
    whole = pinned.read_text()
    for text in ("", OTHER):
        pinned.write_text(text)
        keys.pin(roster.NODES)
        assert pinned.read_text() == whole
    pinned.unlink()
    keys.pin(roster.NODES)
    assert pinned.read_text() == whole


def test_what_is_right_is_not_written_anew(pinned: Path) -> None:
    """The file is not replaced without need: a process may have it open."""
    before = pinned.stat().st_ino
    keys.pin([GONE])
    keys.pin(roster.NODES)
    assert pinned.stat().st_ino == before


@pytest.mark.parametrize("names", [[GONE], [], None])
def test_a_reset_pins_first(
    pinned: Path, names: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its nodes are logged in to by the keys that are pinned, once they are made."""
    whole = pinned.read_text()
    seen: list[tuple[set[str], str]] = []

    @contextmanager
    def held() -> Iterator[None]:
        yield

    def each(work: Callable[[roster.Node], None], chosen: list[roster.Node]) -> None:
        seen.append(({node.name for node in chosen}, pinned.read_text()))

    monkeypatch.setattr(lock, "held", held)
    monkeypatch.setattr(nodes, "require_up", lambda: None)
    monkeypatch.setattr(nodes, "_each", each)
    pinned.write_text(without(whole, GONE))
    nodes.reset(names)
    assert seen == [(set(names or roster.NODES), whole)]


def test_an_installation_that_cannot_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of root's: the error says where gpu-node is to be installed."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(roster, "STATE", tmp_path / "file" / ".lab")
    with pytest.raises(LabError, match=r"file/\.lab cannot be written \(Not a directory\): inst"):
        keys.make()
