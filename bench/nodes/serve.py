"""The nodes of a benchmark while it runs: they answer at once, or are real shells."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from bench.contenders.setup import Setup
from bench.nodes import answers, probed
from bench.nodes.cluster import Login, nodes, write_inventory
from bench.nodes.sshd import serving
from bench.places import HERE

_ANSWERS = HERE / "answers"


class Busy(Exception):
    """Another benchmark runs in this folder."""


@contextmanager
def answering(most: int) -> Iterator[Login]:
    """Serve the first nodes; `prepared` stores what they answer. Raises Busy, NoServer, NoSshd."""
    _ANSWERS.mkdir(parents=True, exist_ok=True)
    with _alone(), serving(HERE / "sshd", nodes(most), _ANSWERS) as login:
        yield login


@contextmanager
def shells(most: int) -> Iterator[Login]:
    """Serve the first nodes, on which commands run as on this machine. Raises NoServer, NoSshd."""
    with serving(HERE / "shells", nodes(most), None) as login:
        yield login


def prepared(number: int, login: Login) -> Setup:
    """Return so many nodes, with their answers stored for the script of their inventory."""
    folder = HERE / "nodes" / str(number)
    hosts = nodes(number)
    inventory = write_inventory(folder / "site", number, login)
    script = probed.script(inventory, folder / "probe")
    answers.write(_ANSWERS, script, hosts, HERE / "home")
    return Setup(hosts, login, inventory, script, folder)


@contextmanager
def _alone() -> Iterator[None]:
    with (HERE / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Busy(f"another benchmark runs in {HERE.name}; next: wait for its end") from None
        yield
