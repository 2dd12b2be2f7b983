"""A report of many nodes by `--answers`: each answer is that of a separate node."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench import answers_of_many as many
from bench.contenders import ours
from bench.measure.run import Failed, measured
from bench.nodes.cluster import nodes
from bench.nodes.probed import sections
from tests.pace import pace

pytestmark = pytest.mark.slow

FIRST, SECOND, THIRD = nodes(3)
# Measured: 230 to 260, and 171 MB, of half of the nodes of the benchmark.
MANY, MOST_PACES, MOST_MEGABYTES = many.MANY // 2, 900, 220


def test_a_node_has_its_address_and_the_same_list_of_all() -> None:
    """It reaches each node from its address; the others have the names that they have for all."""
    names = "\n".join(
        [
            *(f"name {each.name} {each.address}" for each in (FIRST, SECOND, THIRD)),
            *(f"source {each.name} {FIRST.address}" for each in (FIRST, SECOND, THIRD)),
        ]
    )
    hosts = f"line 2 {FIRST.address} {FIRST.name}"
    given = {
        "ssh.names": (0, "raw", names),
        "ssh.hosts": (0, "raw", hosts),
        "host.name": (0, "raw", f"name {FIRST.name}"),
    }
    found = many.of_node(given, FIRST, THIRD)
    assert found["ssh.names"][2].splitlines() == [
        *names.splitlines()[:3],
        *(f"source {each.name} {THIRD.address}" for each in (FIRST, SECOND, THIRD)),
    ]
    assert found["ssh.hosts"][2] == hosts
    assert found["host.name"][2] == f"name {THIRD.name}"
    assert many.of_node(given, FIRST, FIRST) == given


@pytest.mark.parametrize("mesh", [False, True], ids=["plain", "mesh"])
def test_each_answer_is_read(tmp_path: Path, mesh: bool) -> None:
    """No node is unreachable or unreadable, and the names of all have their addresses."""
    inventory = many.written(tmp_path, 3, mesh)
    found = ours.judged(inventory, 3, *many.options())
    assert not [rule for rule in found if rule.endswith(".unreadable")]
    assert not [rule for rule in found if rule.startswith(("host.", "ssh.name", "ssh.address"))]
    answer = (tmp_path / "answers" / f"{THIRD.name}.txt").read_text()
    assert ("ssh.names" in sections(answer)) == mesh


@pytest.mark.parametrize(
    ("before", "after"),
    [("@@gpu-node done", ""), ("begin ssh.names 0", "begin ssh.names 1")],
    ids=["cut off", "a section that failed"],
)
def test_a_report_with_an_unreadable_node_does_not_count(
    tmp_path: Path, before: str, after: str
) -> None:
    """It ends with 1."""
    inventory = many.written(tmp_path, 2, mesh=True)
    answer = tmp_path / "answers" / f"{SECOND.name}.txt"
    answer.write_text(answer.read_text().replace(before, after))
    with pytest.raises(Failed, match="ended with 1"):
        measured(many.drift(inventory), tmp_path / "run")


def test_a_report_with_an_unreachable_node_does_not_count(tmp_path: Path) -> None:
    """A node without an answer is unreachable: the report ends with 1."""
    inventory = many.written(tmp_path, 2, mesh=True)
    (tmp_path / "answers" / f"{SECOND.name}.txt").unlink()
    with pytest.raises(Failed, match="ended with 1"):
        measured(many.drift(inventory), tmp_path / "run")


def test_many_nodes_that_list_each_other(tmp_path: Path) -> None:
    """The report as a table, in which no node is unreadable or unreachable.

    It waits for nothing: its CPU seconds are multiples of those of other work.
    """
    inventory = many.written(tmp_path, MANY, mesh=True)
    taken = measured(many.drift(inventory), tmp_path / "run")
    shutil.rmtree(inventory.with_name("answers"))
    print(f"\n{taken.wall:.1f} s, {taken.cpu:.1f} s CPU, {taken.megabytes:.0f} MB")
    assert taken.cpu < MOST_PACES * pace()
    assert taken.megabytes < MOST_MEGABYTES
