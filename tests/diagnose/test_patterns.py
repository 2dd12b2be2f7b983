"""The patterns: no text hides what its regex accepts, and none needs the line to be bare."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import islice, product
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from gpu_node.diagnose.cause import UNKNOWN, Cause, Pattern, causes, stages
from gpu_node.diagnose.limited import Meter
from gpu_node.diagnose.match import Matcher
from gpu_node.diagnose.scan import Scanner, Size
from gpu_node.diagnose.sources import Log

PATTERNS = {
    f"{name}, {number}: {pattern.has.strip()}": (cause, pattern)
    for name, cause in causes().items()
    for number, pattern in enumerate(cause.patterns)
}
# How many examples are made of a regex, and of a part of it.
_MOST = 400
_CATEGORIES = {"DIGIT": "1", "SPACE": " ", "WORD": "x", "NOT_DIGIT": "x", "NOT_SPACE": "x"}
# How a line may stand in a log.
FORMS = {
    "alone": "{}",
    "quoted": '"{}"',
    "cut": "{}...",
    "rank": "[rank3]: {}",
    "time": "[2024-04-01 12:00:09,000] {}",
    "level": "ERROR 04-01 12:00:09 engine.py:12] {}",
}
BARE = ("quoted", "cut", "level")


@cache
def examples(regex: str) -> list[str]:
    """Return texts that a regex accepts: each alternative, with and without what may lack."""
    return [*islice(_of(parser.parse(regex)), _MOST)]


def _of(parts: parser.SubPattern) -> Iterator[str]:
    for chosen in islice(product(*(_each(*part) for part in parts)), _MOST):
        yield "".join(chosen)


def _each(kind: object, value: Any) -> list[str]:
    found: list[str] = [""]
    match str(kind):
        case "LITERAL":
            found = [chr(value)]
        case "NOT_LITERAL" | "ANY":
            found = ["x"]
        case "IN":
            found = _members(value)
        case "BRANCH":
            found = [text for branch in value[1] for text in islice(_of(branch), _MOST)]
        case "SUBPATTERN":
            found = [*islice(_of(value[3]), _MOST)]
        case "MAX_REPEAT" | "MIN_REPEAT":
            low, _, of = value
            texts = [*islice(_of(of), 8)]
            found = [text * low for text in texts] if low else ["", *texts]
    return found


def _members(of: list[tuple[object, Any]]) -> list[str]:
    kinds = [str(kind) for kind, _ in of]
    if "NEGATE" in kinds:
        return ["x"]
    texts = [chr(value) for kind, value in of if str(kind) == "LITERAL"]
    texts += [chr(value[0]) for kind, value in of if str(kind) == "RANGE"]
    names = [str(value).removeprefix("CATEGORY_") for kind, value in of if str(kind) == "CATEGORY"]
    return [*texts, *(_CATEGORIES.get(each, "-") for each in names)][:3]


def line_of(pattern: Pattern) -> str | None:
    """Return a line that a pattern accepts, which is made of its text and its regex."""
    parts = examples(pattern.line) if pattern.line else [""]
    has = f"x{pattern.has}" if pattern.has[0] == " " else pattern.has
    lines = (
        text
        for part in parts
        for text in (
            part,
            has + part,
            f"{part} {has}",
            part + has,
            f"{has} {part}",
            _joined(has, part),
        )
    )
    return next(
        (each for each in lines if has in each and re.search(pattern.line, each)),
        None,
    )


def _joined(one: str, two: str) -> str:
    """Return two texts as one, where the second begins with the end of the first."""
    size = next(
        size
        for size in range(min(len(one), len(two)), -1, -1)
        if one[len(one) - size :] == two[:size]
    )
    return one + two[size:]


@pytest.mark.parametrize("name", PATTERNS)
def test_a_text_is_in_all_that_its_regex_accepts(name: str) -> None:
    """Or in nothing of it, where the regex is about another part of the line."""
    _, pattern = PATTERNS[name]
    if pattern.line:
        texts = examples(pattern.line)
        without = [text for text in texts if pattern.has.strip() not in text]
        assert without in ([], texts)


# What a report looks for; it compiles the texts once.
SCANNER = Scanner(Matcher(causes().values()).texts())
LINES = {name: line for name, (_, each) in PATTERNS.items() if (line := line_of(each)) is not None}


# Of these no line is made: a lookahead refuses each example, or the text lies across two parts of
# the regex. The recorded logs, the threads and verdicts.yml have lines of them.
WITHOUT_A_LINE = {
    "nccl-peer-gone": 1,
    "rank-late-at-barrier": 2,
    "roce-misconfigured": 1,
    "tensor-parallel-size-wrong": 1,
}


def test_the_patterns_without_a_line_are_known() -> None:
    """All others are tried in each form."""
    without = (name.partition(",")[0] for name in PATTERNS.keys() - LINES.keys())
    assert Counter(without) == WITHOUT_A_LINE


@pytest.mark.parametrize("name", LINES)
def test_a_line_is_known_in_each_form(name: str) -> None:
    """As a process prints it, in quotes, before something else, behind a prefix."""
    cause, pattern = PATTERNS[name]
    line = LINES[name]
    near = [text for each in pattern.near for text in examples(each)[:1]]
    near += (
        examples(stages()[pattern.stage].pattern)[:1] if pattern.stage not in ("", UNKNOWN) else []
    )
    is_anchored = "^" in pattern.line or "$" in pattern.line
    unknown = [
        form
        for form, template in FORMS.items()
        if not (form in BARE and is_anchored)
        and not _is_known(cause, pattern, template.format(line), near)
    ]
    assert unknown == [], line


def _is_known(cause: Cause, pattern: Pattern, line: str, near: list[str]) -> bool:
    one = cause.model_copy(update={"patterns": (pattern,), "level": "cause"})
    log = "\n".join([*near, line, ""]).encode()
    matcher = Matcher([one])
    for each in SCANNER.lines(Log("log", None, data=log), 0, Size(), Meter()):
        matcher.take(each)
    return cause.name in matcher.causes
