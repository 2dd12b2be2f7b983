"""Which nodes are tried together next, and what the tries name; pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from statistics import median_high, median_low

from gpu_node.drift.together import together

# What takes so many times the median of its model, in so many tries, is slow.
SLOW, AGREE = 2.0, 3
Members = tuple[str, ...]
# What is slow, the set whose tries show it, and why.
Slow = tuple[Members, Members, str]


@dataclass(frozen=True)
class Worked:
    """A rank on its own: operations a second of a matrix product, bytes a second of a copy."""

    device: str
    product: float
    memory: float


@dataclass(frozen=True)
class Tried:
    """How a try of some nodes ended: `why` it failed, "" if every rank computed the right sums.

    `seconds` is what an all-reduce takes, `bandwidth` in bytes a second, `link` what the slowest
    link allows; None if unknown. `devices` are those of the ranks; `worked` has their own speeds,
    of a node alone that no job uses.
    """

    members: Members
    why: str = ""
    seconds: float = 0
    bandwidth: float | None = None
    link: float | None = None
    devices: str = ""
    worked: tuple[Worked, ...] = ()

    @property
    def is_quick(self) -> bool:
        """Whether it works with at least half of what the link allows."""
        return not self.why and bool(self.link) and (self.bandwidth or 0) >= (self.link or 0) / 2


@dataclass(frozen=True)
class Named:
    """A node, a pair or a set of nodes of which something is wrong, and why."""

    members: Members
    why: str


class Found:
    """What the tries of some nodes show so far; the last try of a set counts."""

    def __init__(self, nodes: Sequence[str], tries: Sequence[Tried]) -> None:
        self.tries: defaultdict[Members, list[Tried]] = defaultdict(list)
        for each in tries:
            self.tries[each.members].append(each)
        self.ends = {members: repeated[-1].why for members, repeated in self.tries.items()}
        self.nodes = tuple(nodes)
        self.good = tuple(name for name in nodes if self.ends.get((name,)) == "")
        pairs = [pair for pair in combinations(self.good, 2) if pair in self.ends]
        self.works: dict[str, list[str]] = {name: [] for name in self.good}
        self.fails: dict[str, list[str]] = {name: [] for name in self.good}
        for one, other in pairs:
            of = self.fails if self.ends[one, other] else self.works
            of[one].append(other)
            of[other].append(one)
        self.sound = [pair for pair in pairs if not self.ends[pair]]
        # Those that work with no other node, and fail with some that do.
        self.lone = [
            name
            for name in self.good
            if not self.works[name] and any(self.works[other] for other in self.fails[name])
        ]

    def next(self) -> list[Members]:
        """Return sets to try at the same time, no node in two; none if nothing is left to try."""
        return next((step for step in self._steps() if step), [])

    def _steps(self) -> Iterator[list[Members]]:
        yield [(name,) for name in self.nodes if (name,) not in self.ends]
        yield self._repeated(self._slow_alone())
        if len(self.good) < 2:
            return
        yield [self.good] if self.good not in self.ends else []
        if self.tries[self.good][-1].is_quick:
            return
        out = {
            name
            for name in self.lone
            if sum(bool(self.works[other]) for other in self.fails[name]) > 1
        }
        for pairs in _rounds(self.good):
            yield [pair for pair in pairs if pair not in self.ends and not out & {*pair}]
        yield self._repeated(self._slow_together())
        yield self._untried(self._kept())

    def _repeated(self, slow: Iterable[Slow]) -> list[Members]:
        """Return the sets that may be slow, as many as share no node."""
        found: list[Members] = []
        for _, tried, _ in slow:
            if len(self.tries[tried]) < AGREE and not {*tried} & {*sum(found, ())}:
                found.append(tried)
        return found

    def _untried(self, members: Members) -> list[Members]:
        """Return what is left to try of a set: itself, or the halves of one that failed."""
        works = any(not why and {*members} <= {*tried} for tried, why in self.ends.items())
        if works or len(members) < 3:
            return []
        if members not in self.ends:
            return [members]
        half = len(members) // 2
        return self._untried(members[:half]) + self._untried(members[half:])

    def _slow_alone(self) -> Iterator[Slow]:
        """Yield the nodes of which a rank's device was slow in all tries of the node alone."""
        works = {
            (name, at): tries
            for name in self.good
            for at, tries in enumerate(
                zip(*(each.worked for each in self.tries[name,]), strict=False)
            )
        }
        for speed, what in (("product", "its matrix product"), ("memory", "a copy in its memory")):
            best = {at: max(getattr(each, speed) for each in tries) for at, tries in works.items()}
            for (name, number), tries in works.items():
                device = tries[0].device
                like = [best[at] for at, each in works.items() if each[0].device == device]
                ratio = median_high(like) / best[name, number]
                if ratio >= SLOW:
                    rank = f"GPU {number}, " if len(self.tries[name,][0].worked) > 1 else ""
                    why = f"{what} takes {ratio:.1f} times the median of its model ({device})"
                    yield (name,), (name,), f"slow: {rank}{why}"

    def _slow_together(self) -> Iterator[Slow]:
        """Yield what was slow in all its tries, the pair that shows it, and why.

        A node is slow if its quickest pair is, among the nodes whose quickest pairs are like it.
        """
        times = {pair: min(each.seconds for each in self.tries[pair]) for pair in self.sound}
        kinds: dict[Members, tuple[object, ...]] = {
            pair: (
                *sorted(self.tries[name,][-1].devices for name in pair),
                self.tries[pair][0].link,
            )
            for pair in self.sound
        }
        pairs_of = {name: [each for each in times if name in each] for name in self.good}
        best = {(name,): min(of, key=times.__getitem__) for name, of in pairs_of.items() if of}
        for shown in (best, {pair: pair for pair in self.sound}):
            for members, pair in shown.items():
                like = [times[each] for each in shown.values() if kinds[each] == kinds[pair]]
                ratio = times[pair] / median_low(like)
                if ratio >= SLOW:
                    yield members, pair, f"slow: takes {ratio:.1f} times the median of its model"

    def slow(self) -> list[Named]:
        """Return what is slow in all of some tries; a pair only if neither of its nodes is."""
        found: dict[Members, str] = {}
        for members, tried, why in chain(self._slow_alone(), self._slow_together()):
            if len(self.tries[tried]) >= AGREE and not any((name,) in found for name in members):
                found[members] = why
        return [Named(members, why) for members, why in found.items()]

    def named(self) -> list[Named]:
        """Return what explains all failures, then what is slow."""
        failed = [members for members, why in self.ends.items() if why]
        found = [Named((name,), self._of_lone(name)) for name in self.lone]
        least = [each for each in failed if not any({*other} < {*each} for other in failed)]
        if len(self.good) > 2 and not self.sound and any(self.fails.values()):
            pair = next(each for each in least if len(each) == 2)
            found.append(Named(self.good, f"no two of them work together: {self.ends[pair]}"))
            least = [each for each in least if len(each) == 1]
        for members in (each for each in least if not {*each} & {*self.lone}):
            found.append(Named(self._suspects(members), self.ends[members]))
        return [*found, *self.slow()]

    def _of_lone(self, name: str) -> str:
        first = next(pair for pair in self.ends if len(pair) == 2 and name in pair)
        return f"fails with {', '.join(self.fails[name])}: {self.ends[first]}"

    def _suspects(self, members: Members) -> Members:
        """Return a failed set without the nodes that work with each of it, if others are left."""
        return (
            tuple(
                name
                for name in members
                if any(other != name and other not in self.works[name] for other in members)
            )
            or members
        )

    def _kept(self) -> Members:
        """Return the largest set without what is named."""
        slow = [each.members for each in self.slow()]
        left = [name for name in self.good if name not in self.lone and (name,) not in slow]
        apart = {name: {*self.fails[name]} for name in left}
        for one, other in (pair for pair in slow if len(pair) == 2):
            apart[one].add(other)
            apart[other].add(one)
        graph = {name: frozenset(others & {*left}) for name, others in apart.items()}
        return together(left, graph)[0]

    def working(self) -> Members:
        """Return the largest set that worked, without what is named."""
        kept = self._kept()
        worked = [tried for tried, why in self.ends.items() if not why]
        sets = [tuple(name for name in kept if name in tried) for tried in worked]
        return max(sets, key=len, default=())


def _rounds(names: Members) -> Iterator[list[Members]]:
    """Yield all pairs in rounds, in which each node is in one pair: the first keeps its place."""
    places = [*range(len(names)), *([-1] if len(names) % 2 else [])]
    for _ in places[1:]:
        half = len(places) // 2
        pairs = zip(places[:half], reversed(places[half:]), strict=True)
        both = [sorted(pair) for pair in pairs if -1 not in pair]
        yield [(names[one], names[other]) for one, other in both]
        places[1:] = [places[-1], *places[1:-1]]
