"""The nodes that answer at once, served for as long as a benchmark takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.contenders.setup import Setup
from bench.nodes import answers, probed
from bench.nodes.cluster import Login, nodes, write_inventory
from bench.nodes.sshd import serving
from bench.places import HERE


@contextmanager
def answering(most: int) -> Iterator[Login]:
    """Serve the first nodes; `prepared` stores what they answer."""
    _answers().mkdir(parents=True, exist_ok=True)
    with serving(HERE / "sshd", nodes(most), _answers()) as login:
        yield login


def prepared(number: int, login: Login, folder: Path | None = None) -> Setup:
    """Return so many nodes, with their answers stored for the script of their inventory."""
    folder = folder or HERE / "nodes" / str(number)
    hosts = nodes(number)
    inventory = write_inventory(folder / "site", number, login)
    script = probed.script(inventory, folder / "probe")
    answers.write(_answers(), script, hosts, HERE / "home")
    return Setup(hosts, login, inventory, script, folder)


def _answers() -> Path:
    return HERE / "answers"
