"""What to write in place of a wrong value: the first candidate that its model accepts."""

import json
import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from itertools import chain

import yaml
from pydantic import BaseModel

from gpu_node.inventories.errors import KeyPath, Problem, quoted
from gpu_node.inventories.fields.sizes import UNITS, format_size
from gpu_node.inventories.keys import (
    complaints,
    examples,
    field_at,
    leaf_paths,
    section,
    words,
)
from gpu_node.inventories.model import Model

_QUOTES = " \t\"'`\u2018\u2019\u201a\u201c\u201d\u201e"
# What people write for a word that YAML or a key has.
_SYNONYMS: dict[str, object] = {
    **dict.fromkeys(("1", "y", "yes", "on", "true", "enable", "enabled"), True),
    **dict.fromkeys(("0", "n", "no", "off", "false", "disable", "disabled"), False),
}
_WITHOUT_END = ("-1", "inf", "infinity", "infinite", "max", "unlimit")
_UNIT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt])(?:i?b(?:ytes?)?)?", re.IGNORECASE)
_PAIR = re.compile(r"([A-Za-z_]+)\s*(?:[:=]\s*|\s)(\S.*)")
_LONGEST = 200


def advised(model: type[BaseModel], problem: Problem, value: object, written: str = "") -> Problem:
    """Return a problem of a model with its next step; `written` is the text that YAML has read."""
    if problem.then or problem.kind == "check":
        return problem
    if problem.kind == "extra_forbidden":
        return problem._replace(then=_of_key(model, problem))
    if problem.kind in ("missing", "empty"):
        verb = "add" if problem.kind == "missing" else "remove it; or write"
        return problem._replace(then=f"{verb}, for example, {_example(model, problem.path)}")
    right = meant(model, problem.path, value, written)
    if right is None:
        return problem._replace(then=f"write, for example, {_example(model, problem.path)}")
    is_in_quotes = isinstance(value, str) and not isinstance(right, str) and str(right) == value
    found = quoted(f'"{value}"') if is_in_quotes else problem.found
    return problem._replace(found=found, then=f"write {_line(problem.path, right)}")


def meant(model: type[BaseModel], path: KeyPath, value: object, written: str = "") -> object:
    """Return what a wrong value was probably meant to be; None where nothing is near."""
    _, field = field_at(model, path)
    inner = section(field) if field else None
    place = (*path, inner.SHORT) if inner and issubclass(inner, Model) and inner.SHORT else path
    for candidate in _candidates(value, written or str(value), words(model, place)):
        is_other = candidate != value or type(candidate) is not type(value)
        at = path if isinstance(candidate, dict) else place
        if candidate not in (None, {}, []) and is_other and _is_right(model, at, candidate):
            return candidate
    return None


def _candidates(value: object, written: str, known: list[str]) -> Iterator[object]:
    """Yield what a person may have meant, the likeliest first."""
    if isinstance(value, list):
        yield _as_one(value)
    if not isinstance(value, str | int | float) or len(written) > _LONGEST:
        return
    text = written.strip(_QUOTES)
    digits = re.sub(r"(?<=[0-9])[_, ](?=[0-9])", "", text)
    if pair := _PAIR.fullmatch(text):
        yield {pair[1]: _scalar(pair[2])}
    if re.fullmatch(r"-?[0-9]+(\.0+)?", digits):
        yield int(digits.partition(".")[0])
    yield from _sizes(digits)
    yield text
    yield _SYNONYMS.get(text.lower())
    if text.lower() in _WITHOUT_END:
        yield "unlimited"
    yield from get_close_matches(text.lower(), known, n=1)
    lower = text.lower()
    yield lower
    yield re.sub(r"[^a-z0-9.]+", "-", lower).strip("-.")
    yield re.sub(r"^(0o?|v)", "", lower)
    yield text.partition("/")[0]
    if found := re.split(r"[,\s]+", text.strip("[]{}")):
        yield found


def _as_one(items: Iterable[object]) -> object:
    """Return a list of mappings as one mapping."""
    pairs = [each.items() if isinstance(each, dict) else [("", None)] for each in items]
    return dict(chain.from_iterable(pairs))


def _sizes(text: str) -> Iterator[object]:
    """Yield a number with a unit as a size and as a number, and one without as a size."""
    if found := _UNIT.fullmatch(text):
        count = int(float(found[1]) * UNITS[found[2].upper()])
        yield format_size(count)
        yield count
    elif text.isdecimal() and int(text) >= UNITS["K"]:
        yield format_size(int(text))


def _scalar(text: str) -> object:
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return found if isinstance(found, str | int | bool) else text


def _is_right(model: type[BaseModel], path: KeyPath, value: object) -> bool:
    """Whether a model has nothing against a value at a path."""
    same = tuple(0 if isinstance(key, int) else key for key in path)
    for key in reversed(path):
        value = [value] if isinstance(key, int) else {key: value}
    found = complaints(model, value, partial=True)
    return not any(problem.path[: len(same)] == same for problem in found)


def _of_key(model: type[BaseModel], problem: Problem) -> str:
    """Return what to do about a key that does not exist where it is written."""
    name = str(problem.path[-1])
    _, is_near, near = problem.why.partition("did you mean ")
    if is_near:
        return f"write {near.rstrip('?')}"
    for path in leaf_paths(model):
        if path[-1] == name and path[:-1]:
            return f"write {_nested(path, next(examples(model, path)))}, for example"
    return "remove it, or write one of the allowed keys"


def _example(model: type[BaseModel], path: KeyPath) -> str:
    return next((_line(path, each) for each in examples(model, path)), "one of the allowed values")


def _nested(path: KeyPath, value: object) -> str:
    for key in reversed(path[1:]):
        value = {key: value}
    return _line(path[:1], value)


def _line(path: KeyPath, value: object) -> str:
    """Return a key and its value as they are written; the value alone in a list."""
    name = path[-1] if path and isinstance(path[-1], str) else ""
    return f"{name}: {as_yaml(value)}" if name else as_yaml(value)


def as_yaml(value: object) -> str:
    """Return a value as it is written in one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    line = text.removesuffix("\n").removesuffix("\n...")
    return json.dumps(value) if isinstance(value, str) and line.startswith("'") else line
