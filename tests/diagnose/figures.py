"""How often the cause of a labelled log is named: `python -m tests.diagnose.figures`.

Prints the page docs/diagnose.md, and with `--write` writes it. With the name of a set (`seen`,
`held_out`, `recorded`) it also prints each log whose cause is not first.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpu_node.diagnose.answer import Answer, diagnose
from gpu_node.diagnose.cause import causes
from gpu_node.diagnose.sources import Log, logs
from tests.case_files import load
from tests.commands import REPOSITORY
from tests.diagnose.test_recorded import RECORDED, labels
from tests.diagnose.test_threads import HALVES, threads

HERE = Path(__file__).parent
PAGE = REPOSITORY / "docs" / "diagnose.md"
SIDES = ("machines", "code", "neither", "nothing known")
SETS = {
    "seen": "threads, seen by the authors of the patterns",
    "held_out": "threads, held out",
    "recorded": "recorded on two nodes",
}

# What the first threads that were held out gave, of 60, before patterns were written for them.
FIRST_HELD_OUT = (
    "Of the threads now seen, 60 were held out when the patterns were first written. They then "
    "gave: cause first 33",
    "(55 %), among three 33, code or machines 49 (82 %), nothing known 7. For their causes, "
    "patterns were added since,",
    "and some labels mean one of the causes that were added.",
)


@dataclass(frozen=True)
class Judged:
    """A labelled log: the causes that its label means, its side, and the answer to it."""

    name: str
    meant: tuple[str, ...]
    side: str
    answer: Answer

    @property
    def named(self) -> list[str]:
        """The causes that the answer names, the first first."""
        return [each.cause.name for each in self.answer.candidates]

    @property
    def place(self) -> int | None:
        """At which place the cause stands; None if it is not named."""
        return next((at for at, name in enumerate(self.named) if name in self.meant), None)

    @property
    def answered(self) -> str:
        """What the answer says is to be changed."""
        return self.answer.candidates[0].cause.side if self.answer.candidates else "nothing known"


@cache
def names(of: str) -> dict[str, list[str]]:
    """Return the causes that each label means, of threads or recorded logs; none: no cause."""
    found: dict[str, list[str]] = load((HERE / of / "names.yml").read_text())
    return found


@cache
def judged(of: str) -> tuple[Judged, ...]:
    """Return the logs of a set with their answers."""
    return tuple(_recorded() if of == "recorded" else _threads(of))


def _threads(half: str) -> Iterator[Judged]:
    for thread in threads(half):
        answer = diagnose([Log("log", None, data=thread.log.encode())])
        yield Judged(thread.url, tuple(names("threads")[thread.slug]), thread.side, answer)


def _recorded() -> Iterator[Judged]:
    for name, label in labels().failed.items():
        path = next((RECORDED / "failed").glob(f"{name}.log*"), RECORDED / "failed" / name)
        meant = tuple(names("recorded")[name])
        yield Judged(name, meant, label.side, diagnose(logs((str(path),))[0]))


@cache
def alarms() -> list[str]:
    """Return the healthy logs that are not taken for healthy."""
    return [
        name
        for name in labels().healthy
        if diagnose(logs((str(RECORDED / "healthy" / f"{name}.log"),))[0]).verdict
        in ("cause", "nothing known")
    ]


def sets() -> dict[str, str]:
    """Return the sets that have a log, and what each is."""
    return {of: words for of, words in SETS.items() if judged(of)}


def figures(of: str) -> dict[str, int]:
    """Return how many logs: all, cause first, among three, the right side, nothing known."""
    found = judged(of)
    return {
        "logs": len(found),
        "first": sum(each.place == 0 for each in found),
        "among three": sum(each.place is not None for each in found),
        "side": sum(each.answered == each.side for each in found),
        "nothing known": sum(not each.answer.candidates for each in found),
    }


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    marks = ["---", *["---:"] * (len(head) - 1)]
    return [f"| {' | '.join(map(str, row))} |" for row in (head, marks, *rows)]


def _share(part: int, whole: int) -> str:
    return f"{part} ({round(100 * part / whole)} %)"


def page() -> str:
    """Return docs/diagnose.md."""
    rows, confused = [], Counter[tuple[str, str]]()
    for of, words in sets().items():
        counts = figures(of)
        all_of_them = counts.pop("logs")
        rows.append([words, all_of_them, *(_share(each, all_of_them) for each in counts.values())])
        confused += Counter((each.side, each.answered) for each in judged(of))
    labelled = labels().healthy
    labelled_threads = [each for half in HALVES for each in threads(half)]
    whole = sum(each.read == "whole" for each in labelled_threads)
    answers = [each for each in causes().values() if each.level != "consequence"]
    lines = [
        "# How often `gpu-node diagnose` is right",
        "",
        "`python -m tests.diagnose.figures --write` writes this page; do not edit it. It knows "
        f"{len(answers)} causes and",
        "symptoms. Each log has a label: the cause that was confirmed in its thread, or what was "
        "done to the job.",
        "",
        *_table(
            ("logs", "number", "cause first", "among three", "code or machines", "nothing known"),
            rows,
        ),
        "",
        f"Of {len(labelled)} logs of jobs that ended well, {len(alarms()) or 'none'} is taken "
        "for a failure.",
        "",
        "The threads are public: an author or a maintainer confirmed the cause there. They were "
        "labelled before a",
        "pattern was written, and those held out are not shown to the authors of the patterns. "
        "Which of our causes a",
        "label of theirs, or of a recorded log, means was decided by a reader who did not see the "
        "answers: 0, 1 or 2",
        "causes, and a log whose cause we do not have counts as wrong. The authors could see the "
        "other threads and the",
        f"recorded logs: those figures show little more than that the patterns work. Of "
        f"{len(labelled_threads)} threads {whole} were read",
        "whole, the others in excerpts: their logs are often a few lines, which a whole log is "
        "not. The recorded logs",
        "are real jobs of torch with gloo on two nodes without GPUs.",
        "",
        *FIRST_HELD_OUT,
        "",
        "## Machines or code",
        "",
        *_table(
            ("label", *(f"answer: {side}" for side in SIDES)),
            [
                (side, *(confused[side, answered] for answered in SIDES))
                for side in ("machines", "code")
            ],
        ),
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Print or write the page, or what was answered wrongly."""
    if "--write" in sys.argv:
        PAGE.write_text(page())
        return
    if not sys.argv[1:]:
        print(page())
    for each in (each for of in sys.argv[1:] for each in judged(of)):
        if each.place != 0 or each.answered != each.side:
            print(f"- {each.name}: {', '.join(each.named) or 'nothing'} ({each.answered})")
            print(f"    meant: {', '.join(each.meant) or 'none'} ({each.side})")


if __name__ == "__main__":
    main()
