"""A tree that goes to one node and to eight whose lines are equally slow, and to them by rsync."""

from __future__ import annotations

import shlex
from pathlib import Path
from random import Random

from bench.measure.run import Failed
from bench.nodes.lines import PORT, SOURCE, Lines, prepared
from bench.page.results import Copies
from bench.places import BIN, HERE

MANY = 8
# Ten seconds on one line.
_FILES, _FILE_BYTES = 24, 2 << 20


def compare() -> Copies:
    """Copy by `gpu-node deploy` to one node and to many, and to these by rsync of the source alone.

    Raises Failed, NoSshd.
    """
    one = copied(HERE / "lines" / "1", 1)
    many = copied(HERE / "lines" / str(MANY), MANY)
    plain = with_tree(HERE / "lines" / "rsync", MANY)
    plain.measured(_rsync(plain))
    taken = [round(seconds(each), 2) for each in (one, many, plain)]
    return Copies(MANY, *taken)


def copied(folder: Path, receivers: int) -> Lines:
    """Copy a tree to so many nodes by `gpu-node deploy`. Raises Failed, NoSshd."""
    found = with_tree(folder, receivers)
    program = str(BIN / "gpu-node")
    found.measured([program, "deploy", found.inventory.name, "--areas", "workspace", "-y"])
    return found


def with_tree(folder: Path, receivers: int) -> Lines:
    """Return a source that has a tree, and so many nodes that have nothing."""
    found = prepared(folder, receivers)
    tree, content = found.tree_of(SOURCE), Random(SOURCE)  # noqa: S311 (no secret, only bytes)
    # The first one arrives as soon as a copy begins.
    (tree / "0-begins").write_bytes(b"0")
    for each in range(_FILES):
        (tree / f"{each + 1}-of-{_FILES}").write_bytes(content.randbytes(_FILE_BYTES))
    return found


def seconds(lines: Lines) -> float:
    """Return how long the copies took, from the first file to the last one.

    It is read from the time of each file's last change on this machine: what else a deploy does,
    before and after, does not count. Raises Failed if a node does not have all of it.
    """
    source, others = files(lines, SOURCE), [host.name for host in lines.hosts[1:]]
    if lacking := [other for other in others if files(lines, other) != source]:
        raise Failed(f"not all of the tree is on {', '.join(lacking)}")
    ends = [(lines.tree_of(other) / name).stat().st_ctime for other in others for name in source]
    return max(ends) - min(ends)


def files(lines: Lines, name: str) -> dict[str, bytes]:
    """Return the content of a node's files, read on this machine."""
    return {each.name: each.read_bytes() for each in lines.tree_of(name).iterdir()}


def _rsync(lines: Lines) -> list[str]:
    """Return the command by which the source sends its tree to all others at once."""
    source, *others = lines.hosts
    carrier = shlex.quote(f"ssh -p {PORT}")
    sent = [
        f"rsync -rlpt -e {carrier} {lines.tree}/ {other.address}:{lines.tree}/ &"
        for other in others
    ]
    return ["ssh", "-p", str(PORT), "-i", str(lines.key), source.address, *sent, "wait"]
