"""What a run says of a copy of the workspace before it is made."""

from __future__ import annotations

import pytest

from gpu_node.deploy.workspace import step as workspace
from gpu_node.drift.workspace.copy import Copy
from gpu_node.facts.workspace.state import Tree, tree

FILE = "-rw-r--r-- 5 2024/04/02 08:00:00"
SOURCE = (f"{FILE} lib/a.py", f"{FILE} b.py", f"{FILE} c\tx.py")


def listed(*lines: str) -> Tree:
    """The tree that rsync lists so."""
    return tree("\n".join([*lines, "end 0"]))


def reported(ours: Tree, *more: str) -> list[str]:
    """Return the messages for a node that has this tree."""
    copy = Copy("controller", "/ws", "/data/ws", listed(*SOURCE, *more), ours, delete=True)
    return list(workspace.lines_of(copy))


@pytest.mark.parametrize("ours", [Tree(exists=False), listed()], ids=["missing", "empty"])
def test_what_is_sent_is_named(ours: Tree) -> None:
    """Whether the folder is there or not: it is the same that goes."""
    assert reported(ours) == [
        "/data/ws: send 3 entries, 15 B",
        "send b.py",
        "send c\\tx.py",
        "send lib/a.py",
    ]


def test_what_is_deleted_is_named() -> None:
    """Behind what is sent."""
    lines = reported(listed(*SOURCE[1:], f"{FILE} old.py"))
    assert lines == ["/data/ws: send 1 entry, 5 B, delete 1", "send lib/a.py", "delete old.py"]


def test_the_backup_is_named() -> None:
    """Behind the names of what it is to hold."""
    copy = Copy("controller", "/ws", "/data/ws", listed(*SOURCE[1:]), listed(*SOURCE), delete=True)
    lines = list(workspace.lines_of(copy, "/data/.ws.gpu-node-backup/1"))
    assert lines[-2:] == [
        "delete lib/a.py",
        "keep what is deleted or overwritten in /data/.ws.gpu-node-backup/1",
    ]


def test_a_run_names_a_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last line counts the others."""
    monkeypatch.setattr(workspace, "_SHOWN", 1)
    assert reported(Tree(exists=False))[1:] == ["send b.py", "send 2 more"]


def test_what_rsync_passes_over_is_named() -> None:
    """A few pipes, sockets and devices are listed, because rsync skips them silently."""
    pipes = [f"prw-r--r-- 0 2024/04/02 08:00:00 pipe-{number}" for number in range(4)]
    assert reported(listed(), "srwxr-xr-x 0 2024/04/02 08:00:00 my\tsocket")[-1] == (
        "1 not sent (a pipe, socket or device): my\\tsocket"
    )
    assert reported(listed(), *pipes)[-1] == (
        "4 not sent (a pipe, socket or device): pipe-0, pipe-1, pipe-2, ..."
    )
