"""A converged node goes back: its configuration files are as found, with mode and owner."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpu_node.lab import nodes
from tests.e2e.on_lab import INVENTORY, MANAGED, changed, converge, on, run

pytestmark = [pytest.mark.lab, pytest.mark.lab_slow]

# Read by the node's own programs: one line for each regular file, NAME<tab>SUM MODE OWNER.
FILES = r"""
{ find /etc /root/.ssh -xdev -type f; find /root -maxdepth 1 -type f; } 2>/dev/null |
while IFS= read -r file; do
  sum=$(sha256sum <"$file" | cut -d ' ' -f 1)
  printf '%s\t%s %s\n' "$file" "$sum" "$(stat -c '%a %u:%g' "$file")"
done
"""
# No configuration: caches, and the node's own key, which a restore leaves, as others may accept it.
OTHERS = ("/etc/ld.so.cache", "/root/.ssh/id_ed25519", "/root/.ssh/id_ed25519.pub")
# Files that the deploy writes on a node as found; a list that is empty would prove nothing.
EXPECTED = {"/etc/fstab", "/etc/hosts", "/root/.bashrc", "/root/.ssh/authorized_keys"}


def files(node: str) -> dict[str, str]:
    """Sum, mode and owner of each configuration file."""
    lines = (line.split("\t") for line in on(node, FILES).splitlines())
    return {name: kept for name, kept in lines if name not in OTHERS}


def packaged(node: str, paths: set[str]) -> set[str]:
    """Those that a package installs."""
    asked = 'rpm -qf "$file" >/dev/null 2>&1 || dpkg -S "$file" >/dev/null 2>&1'
    loop = f'while IFS= read -r file; do {{ {asked}; }} && echo "$file"; done'
    names = "\n".join(sorted(paths))
    found = on(node, f"{loop} <<'END'\n{names}\nEND\n:")
    return {*found.splitlines()} & paths


def restore(node: str, *options: str) -> str:
    """Restore a node without a question; what it prints."""
    done = run("gpu-node", "restore", INVENTORY, node, *options)
    assert done.code == 0, done.err
    return done.out


@pytest.fixture
def as_found() -> Iterator[dict[str, dict[str, str]]]:
    """The configuration files of both nodes as found; the nodes are found so again afterwards."""
    nodes.reset(MANAGED)
    yield {node: files(node) for node in MANAGED}
    nodes.reset(MANAGED)


def test_back_to_as_found_and_forward(as_found: dict[str, dict[str, str]]) -> None:
    """What the converge wrote is as before; a restore of the restore writes it again."""
    done = converge()
    assert done.code == 0, done.err
    for node, before in as_found.items():
        after = files(node)
        # Of a package that the converge installed: it is listed, and stays.
        installed = packaged(node, {*after} - {*before})
        ours = changed(before, after) - installed
        assert {*EXPECTED} & ours, ours
        shown = restore(node, "--dry")
        assert files(node) == after
        assert all(path in shown for path in ours), ours
        restore(node, "-y")
        back = files(node)
        assert changed(before, back) - installed == set()
        assert "left to you: " in shown
        restore(node, "-y")
        assert changed(after, files(node)) == set()
        # At a console, by what the run has left.
        on(node, 'set -- /var/backups/gpu-node/*/restore.sh; sh "$1"')
        assert changed(before, files(node)) - installed == set()
