"""Judgements between nodes, which one node's answer can break: finds and excludes that node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from typing import TypeVar

from gpu_node.facts.probe.bounds import in_words

N = TypeVar("N")
T = TypeVar("T")
# A judgement of some nodes, by their names.
Judgement = Callable[[tuple[str, ...]], object]

# So many nodes make 500 pairs; of more, a failing group is looked for, and judged beside so many.
_MOST_IN_PAIRS, _BESIDE = 32, 8


def beside(
    judge: Callable[[dict[str, N]], T], nodes: Mapping[str, N]
) -> tuple[T | None, dict[str, str]]:
    """Return the result of `judge` for nodes, and the reason for each node that breaks it.

    The result is None if `judge` fails without those as well.
    """

    def of(names: tuple[str, ...]) -> T:
        return judge({name: nodes[name] for name in names})

    try:
        return of(tuple(nodes)), {}
    except Exception as error:
        reason = in_words(error)
    blamed = culprits(of, nodes)
    try:
        return of(tuple(name for name in nodes if name not in blamed)), blamed
    except Exception:
        return None, dict.fromkeys(nodes, reason) | blamed


def culprits(judge: Judgement, names: Iterable[str]) -> dict[str, str]:
    """Return the nodes that make a judgement raise, with the error.

    Each node is judged alone, then each pair: the node that fails with most others is blamed, or
    both nodes of a pair that fails only together. If it takes more than two nodes, the judgement is
    repeated without each node in turn.
    """
    names = tuple(names)
    if len(names) > _MOST_IN_PAIRS:
        return _among_many(judge, names)
    alone = {name: _fails(judge, (name,)) for name in names}
    blamed = {name: reason for name, reason in alone.items() if reason is not None}
    left = tuple(name for name in names if name not in blamed)
    blamed |= _by_pairs(judge, left)
    while True:
        left = tuple(name for name in names if name not in blamed)
        reason = _fails(judge, left)
        if reason is None or not left:
            return blamed
        without = [each for each in left if _fails(judge, _less(left, each)) is None]
        blamed |= dict.fromkeys(without or left, reason)


def _by_pairs(judge: Judgement, names: tuple[str, ...]) -> dict[str, str]:
    if _fails(judge, names) is None:
        return {}
    pairs = {pair: reason for pair in combinations(names, 2) if (reason := _fails(judge, pair))}
    blamed: dict[str, str] = {}
    while pairs:
        counts = Counter(name for pair in pairs for name in pair)
        most = max(counts.values())
        for name in (name for name, count in counts.items() if count == most):
            reason = next(reason for pair, reason in pairs.items() if name in pair)
            blamed[name] = reason if most > 1 else f"{reason}, beside {_other(pairs, name)}"
        pairs = {pair: reason for pair, reason in pairs.items() if blamed.keys().isdisjoint(pair)}
    return blamed


def _among_many(judge: Judgement, names: tuple[str, ...]) -> dict[str, str]:
    """Return the culprits among nodes that make too many pairs: halving finds them one by one.

    A small group that fails together is judged like a small cluster, beside some of the others.
    """
    blamed: dict[str, str] = {}
    left = names
    while left and _fails(judge, left) is not None:
        group = _failing(judge, left)
        beside = [each for each in left if each not in group][:_BESIDE]
        found = culprits(judge, (*group, *beside)[:_MOST_IN_PAIRS])
        if not found:  # more nodes than these are needed
            found = {group[-1]: _fails(judge, group) or ""}
        blamed |= found
        left = tuple(each for each in left if each not in found)
    return blamed


def _failing(judge: Judgement, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return a few nodes that fail together, of nodes that do: none of them can be left out."""
    kept: tuple[str, ...] = ()
    while _fails(judge, kept) is None or not kept:
        # The shortest beginning of them that fails beside `kept` ends with a node that it needs.
        low, high = 0, len(names)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if _fails(judge, kept + names[:middle]) else (middle, high)
        kept, names = (*kept, names[high - 1]), names[: high - 1]
        if not names:
            break
    return kept


def _other(pairs: Mapping[tuple[str, str], str], name: str) -> str:
    return next(each for pair in pairs if name in pair for each in pair if each != name)


def _less(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(each for each in names if each != name)


def _fails(judge: Judgement, names: tuple[str, ...]) -> str | None:
    """Return the error of a judgement as text; None if it raises none."""
    try:
        judge(names)
    except Exception as error:  # of any class: the answer of a node caused it
        return in_words(error)
    return None
