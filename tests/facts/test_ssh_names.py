"""What the names of nodes resolve to, in real shells, with a stand-in for getent."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.ssh import mesh
from gpu_node.facts.ssh.state import Names, parse_names
from tests.shells import ask

# As glibc's: the canonical name is in the first line of each answer; unknown names have none.
GETENT = """#!/bin/sh
[ "$1" = ahosts ] || exit 2
shift
echo "$*" >>FOLDER/asked
code=0
for name; do
  line=$(grep -i "^$name " FOLDER/known) || { code=2; continue; }
  set -- $line
  echo "$3        STREAM $2"
  echo "$3        DGRAM"
done
exit $code
"""
NODES = ("n1 10.0.0.1", "n2 10.0.0.2", "n3 box.example.com", "n4 10.0.0.4")
WELL = (
    "n1 n1 10.0.0.1",
    "n2 n2.example.com 10.0.0.2",
    "n3 n3 10.0.0.3",
    "box.example.com box.example.com 10.0.0.3",
    "n4 n4 127.0.1.1",
)


# What an unknown name must not get: the answer about an address, or about another node.
NEAR: dict[tuple[str, ...], tuple[str, ...]] = {
    ("n1 n1.mgmt", "n2 n2.mgmt"): ("n1.mgmt n1.mgmt 10.0.0.1", "n2.mgmt n2.mgmt 10.0.0.2"),
    ("n1 box.mgmt", "n2 10.0.0.2"): ("box.mgmt n1.mgmt 10.0.0.1",),
    ("n1 10.0.0.1", "n1.rack2 10.0.0.9"): ("n1.rack2 n1.rack2 10.0.0.9",),
}


def resolved(shell: str, folder: Path, rows: tuple[str, ...], known: tuple[str, ...]) -> Names:
    """What nodes, each a name and an address, resolve to where the resolver knows these answers."""
    nodes = tuple(Peer(name=row.split()[0], address=row.split()[1]) for row in rows)
    (folder / "known").write_text("".join(f"{row}\n" for row in known))
    sections = mesh.sections(ProbeRequest(nodes=nodes, user="root", address="10.0.0.1"))
    section = next(each for each in sections if each.name == "ssh.names")
    return parse_names(ask(shell, [section]).sections[section.name].require())


def asked(shell: str, folder: Path, known: tuple[str, ...]) -> tuple[dict[str, object], list[str]]:
    """What the names of NODES resolve to, and how getent was called."""
    found = resolved(shell, folder, NODES, known)
    addresses = {"n1": ("10.0.0.1",), "n2": ("10.0.0.2",), "n4": ("10.0.0.4",)}
    assert {**found.addresses, "n3": None} == {**addresses, "n3": None}
    return {**found.names, "box": found.addresses.get("n3")}, (
        (folder / "asked").read_text().splitlines()
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "getent").write_text(GETENT.replace("FOLDER", str(tmp_path)))
    (tmp_path / "getent").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def test_one_question_where_all_names_are_known(shell: str, folder: Path) -> None:
    """IPv4 addresses are not asked about."""
    found, calls = asked(shell, folder, WELL)
    assert found["n4"] == ("127.0.1.1",) and found["box"] == ("10.0.0.3",)
    assert calls == ["n1 n2 n3 box.example.com n4"]


def test_an_unknown_name_alone_is_asked_again(shell: str, folder: Path) -> None:
    """The answers about the others are theirs."""
    found, calls = asked(shell, folder, tuple(row for row in WELL if row[:2] != "n2"))
    wanted = {"n1": ("10.0.0.1",), "n2": (), "n3": ("10.0.0.3",), "n4": ("127.0.1.1",)}
    assert found == {**wanted, "box": ("10.0.0.3",)}
    assert calls[1:] == ["n2"]


@pytest.mark.parametrize("canonical", ["other.example.com", "n1", "n33"])
def test_an_answer_that_may_be_of_another_name(shell: str, folder: Path, canonical: str) -> None:
    """Each name is asked alone then."""
    known = tuple(row.replace("n3 n3", f"n3 {canonical}") for row in WELL if row[:2] != "n2")
    found, calls = asked(shell, folder, known)
    assert (found["n1"], found["n2"], found["n3"]) == (("10.0.0.1",), (), ("10.0.0.3",))
    assert sorted(calls[1:]) == ["box.example.com", "n1", "n2", "n3", "n4"]


@pytest.mark.parametrize("rows", NEAR)
def test_an_unknown_name_gets_no_answer_of_another(
    shell: str, folder: Path, rows: tuple[str, ...]
) -> None:
    """A canonical name may begin with it."""
    found = resolved(shell, folder, rows, NEAR[rows])
    known = {row.split()[0]: (row.split()[2],) for row in NEAR[rows]}
    names = [row.split()[0] for row in rows]
    assert found.names == {name: known.get(name, ()) for name in names}
