"""The largest set of nodes of which no two are apart: the largest independent set of a graph."""

from collections.abc import Mapping, Sequence

# With more nodes that are apart from others the largest set takes too long to find.
MOST_EXACT = 20

Graph = Mapping[str, frozenset[str]]


def together(names: Sequence[str], apart: Graph) -> tuple[tuple[str, ...], bool]:
    """Return a set of nodes of which no two are apart, in their order.

    Also whether no larger one can exist.
    """
    torn = [name for name in names if apart[name]]
    is_largest = len(torn) <= MOST_EXACT
    kept = (_largest if is_largest else _large)(torn, apart)
    return tuple(name for name in names if not apart[name] or name in kept), is_largest


def _largest(names: list[str], apart: Graph) -> frozenset[str]:
    """Return the largest set of nodes of which no two are apart; of several the first found.

    Each node is either left out, or in and all that are apart from it are not: the one with the
    most of these first, so that 20 nodes take some thousand steps.
    """
    worst = _worst(names, apart)
    if not worst:
        return frozenset(names)
    others = [name for name in names if name != worst]
    without = _largest(others, apart)
    with_it = _largest([name for name in others if name not in apart[worst]], apart) | {worst}
    return max(with_it, without, key=len)


def _large(names: list[str], apart: Graph) -> frozenset[str]:
    """Return a set of nodes of which no two are apart: the worst node is left out, until so."""
    left = list(names)
    while worst := _worst(left, apart):
        left.remove(worst)
    return frozenset(left)


def _worst(names: list[str], apart: Graph) -> str:
    """Return the node that is apart from the most of these nodes; empty if no two are apart."""
    present = frozenset(names)
    counts = {name: len(apart[name] & present) for name in names}
    worst = max(counts, key=lambda name: counts[name], default="")
    return worst if counts.get(worst) else ""
