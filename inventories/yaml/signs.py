"""Signs that look like YAML's own, or like a blank, and are letters to it."""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence

import yaml

from gpu_node.inventories.errors import Problem
from gpu_node.inventories.yaml.guard import LimitedLoader, Refused

# What holds any letter: text in quotes, and comments.
_HARMLESS = re.compile(r"""\"[^"]*\"|'[^']*'|(?:^|\s)#.*""")
# Those of a Chinese keyboard: each full-width one is as far from its ASCII sign.
_WIDE = re.compile("[\uff01-\uff5e\u3001\u3002\u3010\u3011]")
_OTHERS = {"\u3001": ",", "\u3002": ".", "\u3010": "[", "\u3011": "]", "\uff1b": ","}
_FROM_ASCII = 0xFEE0
# Each line that is tried costs a parse, and each text a check.
_MOST_TRIED, _LONGEST = 20, 50_000
_GOOD = (0, 0)


def odd_blanks(text: str) -> Iterator[tuple[int, Problem]]:
    """Yield the first sign of each line that looks like a blank, or like nothing."""
    for number, line in enumerate([] if text.isascii() else text.split("\n"), 1):
        for at, sign in enumerate(_outside(line)):
            kind = unicodedata.category(sign)
            if kind in ("Zs", "Cf") and sign != " ":
                then = "write a blank in its place" if kind == "Zs" else "remove it"
                yield number, _problem(sign, at, then)
                break


def narrowed(
    text: str, problems_of: Callable[[str], Sequence[str]]
) -> tuple[str, list[tuple[int, Problem]]]:
    """Return a text with ASCII signs in place of full-width ones, and a problem for each line.

    Where a line is no better with ASCII signs, as a reason in Chinese, it stays. `problems_of`
    returns the problems of a text that is YAML.
    """
    old = text.split("\n")
    wide = [at for at, line in enumerate(old) if _narrow(line) != line][:_MOST_TRIED]
    lines = [_narrow(line) if at in wide else line for at, line in enumerate(old)]
    is_tried = wide and len(text) <= _LONGEST
    before = _badness(text, problems_of) if is_tried else _GOOD
    if before == _GOOD:
        return text, []
    least = _badness("\n".join(lines), problems_of)
    for at in wide:
        tried = [*lines[:at], old[at], *lines[at + 1 :]]
        if (badness := _badness("\n".join(tried), problems_of)) <= least:
            least, lines = badness, tried
    if least >= before:
        return text, []
    problems = []
    for at in (each for each in wide if lines[each] != old[each]):
        found = _WIDE.search(_outside(old[at]))
        assert found is not None
        then = f"write line {at + 1} as {lines[at].strip()}"
        problems.append((at + 1, _problem(found[0], found.start(), then)))
    return "\n".join(lines), problems


def _problem(sign: str, at: int, then: str) -> Problem:
    name = unicodedata.name(sign, "odd sign").lower()
    found = f"{'an' if name[0] in 'aeio' else 'a'} {name} in column {at + 1}"
    return Problem((), found, "YAML takes it for a letter", "valid YAML", then, "syntax")


def _outside(line: str) -> str:
    """Return a line with an x for each letter in a comment or in quotes."""
    return _HARMLESS.sub(lambda match: "x" * len(match[0]), line)


def _narrow(line: str) -> str:
    """Return a line with ASCII signs, and a blank behind : and , that are not in a number."""
    outside = "" if line.isascii() else _outside(line)

    def sign(match: re.Match[str]) -> str:
        if outside[match.start()] != match[0]:
            return match[0]
        narrow = _OTHERS.get(match[0]) or chr(ord(match[0]) - _FROM_ASCII)
        before, after = line[: match.start()][-1:], line[match.end() :][:1]
        is_open = narrow in ":," and after.strip() and not (before.isdigit() and after.isdigit())
        return f"{narrow} " if is_open else narrow

    return _WIDE.sub(sign, line)


def _badness(text: str, problems_of: Callable[[str], Sequence[str]]) -> tuple[int, int]:
    """Return how wrong a text is by these signs: one that is no mapping, by where it ends to be."""
    loader = LimitedLoader(text)
    try:
        root = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return 1, -mark.line if mark else 0
    except (yaml.YAMLError, Refused, RecursionError):
        return 1, 0
    finally:
        loader.dispose()
    if not isinstance(root, yaml.MappingNode):
        return 1, 0
    return 0, sum(bool(_WIDE.search(each)) for each in problems_of(text))
