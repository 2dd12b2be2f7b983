"""Root causes: which finding of the report explains another one, followed to the first of all."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gpu_node.drift.engine.finding import Finding, Root
from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.engine.rule import OnPeer
from gpu_node.drift.engine.subject import Logins, RootOnly, Subject, about_one


class _Root(NamedTuple):
    """What `Root` has, for as many pairs of nodes as there are."""

    node: str
    rule: str
    subject: str


class _Known:
    """The findings of all nodes, by node and rule, and the roots that are the same for many."""

    def __init__(self, findings: Mapping[str, Iterable[Finding]]) -> None:
        self._found: dict[tuple[str, str], list[Finding]] = defaultdict(list)
        for name, each in findings.items():
            for finding in each:
                self._found[name, finding.rule].append(finding)
        self._of_peers: dict[tuple[str, str], _Root | None] = {}

    def get(self, name: str, rule: str) -> Sequence[Finding]:
        return self._found.get((name, rule), ())

    def of_login(self, name: str, rule: str, peer: str) -> _Root | None:
        """Return the root of a finding of a node about its logins with one peer.

        Where only the peer's own state explains it, it is the same for every node.
        """
        if (rule, peer) in self._of_peers:
            return self._of_peers[rule, peer]
        root = _root(name, _Effect(rule, about_one(name, peer)), self)
        if self._is_of_peer(rule, peer):
            self._of_peers[rule, peer] = root
        return root

    def _is_of_peer(self, rule: str, peer: str) -> bool:
        return all(
            isinstance(cause, OnPeer)
            and not any(isinstance(each.about, Logins) for each in self.get(peer, cause.peer))
            for cause in RULES[rule].explained_by
        )


class _Effect(NamedTuple):
    """What is explained of a finding: its rule, what it is about, and the causes that it names."""

    rule: str
    about: Subject | None
    only: Sequence[str] | None = None

    @property
    def causes(self) -> Iterable[str | OnPeer]:
        rule = RULES.get(self.rule)
        if rule is None:  # a value that could not be read
            return _OF_UNREAD if isinstance(self.about, RootOnly) else ()
        return (each for each in rule.explained_by if self.only is None or each in self.only)


_OF_UNREAD = tuple(each.id for each in RULES.values() if each.explains_unread == "root")
# With more roots of one rule, what they explain is one finding: without a key no node lets another
# one in, and each would have a finding about each.
MOST_ROOTS = 4


def with_roots(findings: Mapping[str, list[Finding]]) -> dict[str, list[Finding]]:
    """Return the findings of nodes, each with its root where another of them explains it.

    A cause counts only where it is a finding itself: on the same node, or on the node that the
    finding is about. A finding about several peers becomes one for each root.
    """
    known = _Known(findings)
    return {
        name: [part for each in own for part in _explained(name, each, known)]
        for name, own in findings.items()
    }


def _explained(name: str, finding: Finding, known: _Known) -> Iterator[Finding]:
    """Yield a finding with its root, or its parts where it has several."""
    about = finding.about
    if not isinstance(about, Logins):
        effect = _Effect(finding.rule, about, finding.explained_by)
        yield finding.model_copy(update={"root": _made(_root(name, effect, known))})
        return
    roots: dict[_Root | None, list[str]] = {}
    for peer in (each for peers in about.peers for each in peers.names):
        is_asked = finding.explained_by is None
        root = known.of_login(name, finding.rule, peer) if is_asked else None
        roots.setdefault(root, []).append(peer)
    for group in _merged(name, roots):
        peers = [peer for root in group for peer in roots[root]]
        is_all = len(peers) == about.count
        nodes = tuple(dict.fromkeys(root.node for root in group if root is not None))
        update: dict[str, object] = {"root": _made(group[0]), "root_nodes": nodes}
        if not is_all:
            part = about.only(frozenset(peers))
            update |= {"about": part, "found": part.found}
        yield finding.model_copy(update=update)


def _made(root: _Root | None) -> Root | None:
    return Root(node=root.node, rule=root.rule, subject=root.subject) if root is not None else None


def _merged(name: str, roots: Iterable[_Root | None]) -> list[list[_Root | None]]:
    """Return the roots, each alone, but those of one rule on other nodes together if many."""
    given = list(roots)
    there = Counter(each.rule for each in given if each is not None and each.node != name)
    groups: dict[object, list[_Root | None]] = {}
    for root in given:
        is_many = root is not None and root.node != name and there[root.rule] > MOST_ROOTS
        groups.setdefault(root.rule if root is not None and is_many else root, []).append(root)
    return list(groups.values())


def _root(name: str, effect: _Effect, known: _Known) -> _Root | None:
    """Return the last finding of the chain of causes; rules have no circle, so there is one."""
    root = None
    while (cause := _cause(name, effect, known)) is not None:
        name, finding, about = cause
        effect = _Effect(finding.rule, about, finding.explained_by)
        root = _Root(name, finding.rule, finding.subject)
    return root


def _cause(name: str, effect: _Effect, known: _Known) -> tuple[str, Finding, Subject] | None:
    """Return the finding that explains another one: the first cause that is there.

    It comes with its node, and with what explains the other one of what it is about.
    """
    if (about := effect.about) is None:
        return None
    for cause in effect.causes:
        if not isinstance(cause, OnPeer):
            place, rule, explains, explaining = name, cause, "here", _here
        elif isinstance(about, Logins) and about.peer is not None:
            place, rule, explains, explaining = about.peer, cause.peer, "peers", _on_peer
        else:
            continue
        for each in known.get(place, rule):
            if each.about is not None and each.explains in ("all", explains):
                part = explaining(each.about, name, about)
                if part is not None:
                    return place, each, part
    return None


def _here(cause: Subject, name: str, about: Subject) -> Subject | None:
    """Return the part of a cause that explains a finding of its node.

    Where both are about a kernel, or an environment, it is the same one.
    """
    if cause.is_apart(about):
        return None
    return about if isinstance(cause, Logins) else cause


def _on_peer(cause: Subject, name: str, about: Subject) -> Subject | None:
    """Return the part of a cause that explains a login of the node of that name."""
    if isinstance(cause, Logins):
        return about_one(cause.node, name) if name in cause.names else None
    return cause
