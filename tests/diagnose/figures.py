"""How often the cause of a labelled log is named: `python -m tests.diagnose.figures`.

Prints the page docs/diagnose.md, and with `--write` writes it. With the name of a set (`seen`,
`fresh_shown`, ...) it also prints each log whose cause is not first.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpu_node.diagnose.answer import ANSWERS, Answer, diagnose
from gpu_node.diagnose.cause import causes
from gpu_node.diagnose.sources import Log, logs
from tests.case_files import load
from tests.commands import REPOSITORY
from tests.diagnose.test_recorded import RECORDED, labels
from tests.diagnose.test_threads import FOLDER, HALVES, threads

HERE = Path(__file__).parent
PAGE = REPOSITORY / "docs" / "diagnose.md"
SIDES = ("machines", "code", "neither", "nothing known")
SETS = {
    "seen": "threads, seen by the authors of the patterns",
    "held_out": "threads, held out",
    "fresh_shown": "threads found by symptom, seen",
    "fresh_hidden": "threads found by symptom, held out",
    "second_hidden": "threads found by symptom, second set held out",
    "third_hidden": "threads found by symptom, third set held out",
    "fourth_seen": "threads found by symptom, fourth set, seen",
    "fourth_hidden": "threads found by symptom, fourth set held out",
    "fifth_hidden": "threads found by symptom, fifth set held out",
    "sixth_hidden": "threads found by symptom, sixth set held out",
    "recorded": "recorded on two nodes",
}


@dataclass(frozen=True)
class Judged:
    """A labelled log: the causes that its label means, its side, and the answer to it."""

    name: str
    meant: tuple[str, ...]
    side: str
    answer: Answer
    decidable: bool = True

    @property
    def named(self) -> list[str]:
        """The causes that the answer names, the first first."""
        return [each.cause.name for each in self.answer.candidates]

    @property
    def place(self) -> int | None:
        """At which place the cause stands; None if it is not named."""
        return next((at for at, name in enumerate(self.named) if name in self.meant), None)

    @property
    def is_wrong(self) -> bool:
        """Whether the answer is another cause, or that the job is well."""
        return self.place is None and self.answer.verdict in ANSWERS

    @property
    def is_sure(self) -> bool:
        """Whether the answer is a cause with confidence high."""
        answer = self.answer
        return answer.verdict == "cause" and answer.candidates[0].confidence == "high"

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
        meant = tuple(names("threads")[thread.slug])
        yield Judged(thread.url, meant, thread.side, answer, thread.decidable)


def _recorded() -> Iterator[Judged]:
    for name, label in labels().failed.items():
        path = next((RECORDED / "failed").glob(f"{name}.log*"), RECORDED / "failed" / name)
        meant = tuple(names("recorded")[name])
        yield Judged(name, meant, label.side, diagnose(logs((str(path),))[0]))


@cache
def healthy() -> dict[str, Answer]:
    """Return the answers to the logs of jobs that ran well: recorded, and of threads."""
    found = {
        name: diagnose(logs((str(RECORDED / "healthy" / f"{name}.log"),))[0])
        for name in labels().healthy
    }
    for path in sorted(FOLDER.glob("fresh_healthy_*.yml")):
        for each in load(path.read_text("utf-8")):
            found[each["url"]] = diagnose([Log("log", None, data=each["log"].encode())])
    return found


def alarms() -> list[str]:
    """Return the healthy logs that are taken for failures."""
    alarm = ("cause", "not decidable", "nothing known")
    return [name for name, answer in healthy().items() if answer.verdict in alarm]


def sets() -> dict[str, str]:
    """Return the sets that have a log, and what each is."""
    return {of: words for of, words in SETS.items() if judged(of)}


def figures(of: str, decidable: bool = False) -> dict[str, int]:
    """Return how many logs, or decidable ones, have which answer."""
    found = [each for each in judged(of) if each.decidable or not decidable]
    wrong = [each for each in found if each.is_wrong]
    verdicts = [each.answer.verdict for each in wrong]
    return {
        "logs": len(found),
        "first": sum(each.place == 0 for each in found),
        "first and sure": sum(each.place == 0 and each.is_sure for each in found),
        "among three": sum(each.place is not None for each in found),
        "side": sum(each.answered == each.side for each in found),
        "no cause": sum(not each.answer.candidates for each in found),
        "wrong": len(wrong),
        "sure": sum(each.is_sure for each in wrong),
        "healthy": verdicts.count("healthy") + verdicts.count("went on"),
    }


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    marks = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (head, marks, *rows))


def _share(part: int, whole: int) -> str:
    return f"{part} ({round(100 * part / whole)} %)"


def _rows(decidable: bool) -> str:
    head = ["cause first", "first and sure", "among three", "code or machines", "no cause", "wrong"]
    rows = []
    for of, words in sets().items():
        counts = figures(of, decidable)
        number = counts.pop("logs")
        rows.append([words, number, *(_share(each, number) for each in counts.values())])
    return _table(["logs", "number", *head, "wrong and sure", "called well"], rows)


def page() -> str:
    """Return docs/diagnose.md."""
    confused = Counter((each.side, each.answered) for of in sets() for each in judged(of))
    labelled = [each for half in HALVES for each in threads(half)]
    answers = [each for each in causes().values() if each.level != "consequence"]
    unsure = ("ends in the middle", "no failure recognised")
    sides = [
        (side, *(confused[side, answered] for answered in SIDES)) for side in ("machines", "code")
    ]
    return (
        (HERE / "page.md")
        .read_text()
        .format(
            causes=len(answers),
            table=_rows(decidable=False),
            decidable=_rows(decidable=True),
            healthy=len(healthy()),
            alarms=len(alarms()) or "none",
            unsure=sum(each.verdict in unsure for each in healthy().values()),
            threads=len(labelled),
            whole=sum(each.read == "whole" for each in labelled),
            sides=_table(("label", *(f"answer: {side}" for side in SIDES)), sides),
        )
    )


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
