"""What is wrong between a node and its peers: one finding for all that one repair mends."""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from gpu_node.drift.engine.finding import Severity, Who
from gpu_node.drift.engine.nodes import Nodes
from gpu_node.drift.engine.rule import Fault
from gpu_node.drift.engine.subject import Logins, Peers


class Link(NamedTuple):
    """What is wrong between a node and one peer.

    Links of one `kind`, fixability and severity are one finding. `wants` and `fixes` are the texts
    about several such peers, empty if those about one of them are the same. `own` has what is
    wrong in full, if `words` sum it up.
    """

    peer: str
    words: str
    wanted: str
    cause: str
    fix: str
    fixable: bool = True
    severity: Severity | None = None
    kind: str = ""
    wants: str = ""
    fixes: str = ""
    own: str = ""
    who: Who | None = None
    explained_by: tuple[str, ...] | None = None


def faults(nodes: Nodes, links: Iterable[Link], spared: Collection[str] = ()) -> Iterator[Fault]:
    """Yield a fault for each kind of what is wrong between a node and its peers.

    It stops no job where it is about peers that are `spared` alone, such as those to which logins
    worked all the same, or nodes without GPUs: no rank starts there.
    """
    spared = {*spared, *nodes.once(_without_gpus)}
    kinds: dict[tuple[str, str, bool, Severity | None], list[Link]] = {}
    for link in links:
        key = (link.kind, link.cause, link.fixable, link.severity)
        kinds.setdefault(key, []).append(link)
    for (_, cause, fixable, severity), alike in kinds.items():
        about = Logins(nodes.name, tuple(_peers(alike)))
        first, is_one = alike[0], len(alike) == 1
        yield Fault(
            subject=about,
            found=about.found,
            wanted=first.wanted if is_one else first.wants or first.wanted,
            cause=cause,
            fix=first.fix if is_one else first.fixes or first.fix,
            fixable=fixable,
            severity=severity,
            who=first.who,
            explained_by=first.explained_by,
            stops=any(each.peer not in spared for each in alike),
        )


def _without_gpus(nodes: Nodes) -> frozenset[str]:
    return frozenset(peer.name for peer in nodes.peers if peer.gpus == 0)


def _peers(links: Iterable[Link]) -> Iterator[Peers]:
    by_words: dict[str, list[Link]] = {}
    for link in links:
        by_words.setdefault(link.words, []).append(link)
    for words, alike in by_words.items():
        own = tuple(each.own for each in alike) if alike[0].own else ()
        yield Peers(words, tuple(each.peer for each in alike), own)
