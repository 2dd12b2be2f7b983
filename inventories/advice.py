"""What to write in place of a wrong value: the first candidate that its model accepts."""

import json
import re
import unicodedata
from collections.abc import Iterator
from difflib import get_close_matches

import yaml
from pydantic import BaseModel

from gpu_node.inventories.errors import KeyPath, Problem, quoted
from gpu_node.inventories.fields.addresses import login_of
from gpu_node.inventories.fields.kinds import launchers
from gpu_node.inventories.fields.sizes import UNITS, format_size
from gpu_node.inventories.keys import (
    allowed_at,
    complaints,
    examples,
    field_at,
    keys_of_model,
    model_at,
    short_of,
    words,
)
from gpu_node.inventories.other_names import of_no_key, places_of

_QUOTES = " \t\"'`\u2018\u2019\u201a\u201c\u201d\u201e"
# What people write for a word that YAML or a key has.
_SYNONYMS: dict[str, bool] = {
    **dict.fromkeys(("1", "y", "yes", "on", "true", "enable", "enabled"), True),
    **dict.fromkeys(("0", "n", "no", "off", "false", "disable", "disabled"), False),
}
# A key and its value, as a shell, pip or a list has them.
_PAIR = re.compile(
    r"""(?:(?:export|-e)[ ]+)?([\w.-]+)[ ]*(?:[=~>]?=|:)[ ]*("[^"]*"|'[^']*'|[^\s;,"']+)"""
)
# What the name of a package has besides: libnccl2=2.18.1-1+cuda12.1, nvidia-535.
_VERSION = re.compile(r"([0-9]+(?:\.[0-9]+)*)(?:-[0-9]+)?(?:[+.]?(cuda[0-9]+\.[0-9]+))?")
_BETWEEN = re.compile("(?<=[0-9]),(?=[0-9])")
# A comma is of thousands where three digits follow; 8,5G is 8.5G.
_THOUSANDS = re.compile("(?<=[0-9])(?:[_ ](?=[0-9])|,(?=[0-9]{3}(?![0-9])))")
# As a wheel names CUDA 12.1: cu121.
_CUDA_OF_A_WHEEL = re.compile(r"\bcu([0-9]{2})([0-9])\b")
_UNIT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt])(?:i?b(?:ytes?)?)?", re.IGNORECASE)
# Nearer than gpu is to cpu.
_NEAR = 0.7
_LONGEST = 200
# What other programs write where a key of this file is left out.
_NOTHING = ("nil", "none", "null", "slurm", "srun")
# What a shell replaces, and this file does not.
_OF_A_SHELL = {
    re.compile(r"\$[{A-Z]"): "write the value itself: $ is not replaced here",
    re.compile(r"/\*"): "write each name: * stands for nothing here",
}


def advised(
    model: type[BaseModel],
    problem: Problem,
    value: object,
    written: str = "",
    level: int = 0,
    name: str = "",
) -> Problem:
    """Return a problem of a model with its next step.

    `written` is the text that YAML has read. The model's keys are those of the path but for its
    first ones, of which there are `level`. `name` is how the value's key is written, if otherwise.
    Of a missing key, `value` is its section.
    """
    path, then = problem.path[level:], problem.then
    whole = (*problem.path[:-1], name) if name and problem.path else problem.path
    if then or problem.kind == "check":
        return problem
    if problem.kind == "extra_forbidden" and (then := _of_key(model, path, value, written)):
        return problem._replace(why="no such key", then=then)
    if problem.kind == "key":
        value, path, whole = {path[-1]: value}, path[:-1], whole[:-1]
    _, is_near, near = problem.why.rpartition("did you mean ")
    example = _example(model, path, whole)
    if is_near:
        then = f"write {near.rstrip('?')}"
    elif problem.kind == "extra_forbidden":
        then = "remove it, or write one of the allowed keys"
    elif problem.kind == "missing":
        then = f"add, for example, {example}"
        if isinstance(value, dict) and short_of(model, path[:-1]) in value:
            section = {**value, path[-1]: next(examples(model, path), None)}
            then = f"write, for example, {_line(whole[:-1], section)}"
    elif problem.kind == "empty":
        then = f"remove {path[-1]}; or write, for example, {example}"
    if then:
        return problem._replace(then=then)
    if problem.kind == "notation":
        problem = problem._replace(allowed=allowed_at(model, path))
    if ": put it in quotes" in problem.why and written and not is_right(model, path, written):
        problem = problem._replace(why="")
    right = meant(model, path, value, written)
    text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
    if right is None:
        replaced = (then for sign, then in _OF_A_SHELL.items() if sign.search(text))
        then = f"write, for example, {example}"
        if text.lower() in _NOTHING and _may_be_left_out(model, path):
            then = f"remove {path[-1]}; or {then}"
        return problem._replace(then=next(replaced, then))
    is_in_quotes = isinstance(value, str) and not isinstance(right, str) and as_yaml(right) == value
    found = quoted(f'"{value}"') if is_in_quotes else problem.found
    return problem._replace(found=found, then=f"write {_line(whole, right)}")


def _may_be_left_out(model: type[BaseModel], path: KeyPath) -> bool:
    """Whether a path leads to a key that its section does not need; an entry is none."""
    holder, field = field_at(model, path)
    is_key = field is not None and keys_of_model(holder).get(str(path[-1])) is field
    return is_key and field is not None and not field.is_required()


def meant(model: type[BaseModel], path: KeyPath, value: object, written: str = "") -> object:
    """Return what a wrong value was probably meant to be; None where nothing is near."""
    text = written or str(value)
    place = (*path, key) if (key := short_of(model, path)) else path
    candidates = [*_reshaped(model, place, value), *_candidates(value, text, words(model, place))]
    if isinstance(value, str) and len(value) <= _LONGEST and "version" in allowed_at(model, place):
        plain = _CUDA_OF_A_WHEEL.sub(r"cuda\1.\2", text)
        candidates += ["+".join(filter(None, parts)) for parts in _VERSION.findall(plain)]
    for candidate in candidates:
        is_other = candidate != value or type(candidate) is not type(value)
        if candidate not in (None, {}, []) and is_other and is_right(model, place, candidate):
            return candidate
    return None


def _candidates(value: object, written: str, known: list[str]) -> Iterator[object]:
    """Yield what a person may have meant, the likeliest first."""
    if not isinstance(value, str | int | float) or len(written) > _LONGEST:
        return
    text = written.strip(_QUOTES)
    # In a name, such as a100_02, the sign stands between two numbers.
    digits = text if text[:1].isalpha() else _THOUSANDS.sub("", text)
    digits = _BETWEEN.sub(".", digits)
    if re.fullmatch(r"-?[0-9]+", digits):
        yield int(digits)
    yield digits
    yield from _sizes(digits)
    yield text
    lower = text.lower()
    yield from get_close_matches(lower, known, n=1, cutoff=_NEAR)
    yield _SYNONYMS.get(next(iter(get_close_matches(lower, _SYNONYMS, n=1, cutoff=_NEAR)), ""))
    yield next((launchers()[each] for each in lower.split() if each in launchers()), None)
    yield lower.replace("_", "-")
    yield _BETWEEN.sub(".", text)
    if re.fullmatch(r"[0-9]{1,3}(\.[0-9]{3})+", text):
        yield int(text.replace(".", ""))
    yield unicodedata.normalize("NFKC", text)
    yield text.removesuffix(".")
    yield text.partition(",")[0]


def _reshaped(model: type[BaseModel], path: KeyPath, value: object) -> Iterator[object]:
    """Yield a value in the shape that its key takes: a mapping, a list, or one value."""
    example, inner = next(examples(model, path), None), model_at(model, path)
    if isinstance(example, dict):
        yield _entries(value)
        yield login_of(value) if "address" in example and isinstance(value, str) else None
        for key in keys_of_model(inner) if inner and type(value) in (str, int) else ():
            # A key that takes any text can have been meant by none.
            if key != value and not is_right(model, (*path, key), "any text"):
                yield {**(example if key in example else {}), key: value}
    elif isinstance(example, list) and isinstance(value, dict):
        yield from ([value], list(value), list(value.values()))
        if all(isinstance(each, dict) for each in (example[0], *value.values())):
            yield [{next(iter(example[0])): key, **each} for key, each in value.items()]
    elif isinstance(value, dict) and value:
        one, *others = value.values()
        yield value.get("name") if any(each != one for each in others) else one
    elif isinstance(value, list) and not isinstance(example, list):
        yield from value[:1]


def _entries(value: object) -> dict[str, object]:
    """Return the mapping that texts or single entries are; empty where a part of them is none."""
    entries: dict[str, object] = {}
    for each in value if isinstance(value, list) else [value]:
        single = each if isinstance(each, dict) else {str(each): None}
        if "name" in single:
            rest = {key: given for key, given in single.items() if key != "name"}
            single = {str(single["name"]): rest.get("value", rest)}
        for key, given in single.items():
            is_long = len(str(key)) > _LONGEST
            if is_long or (given is None and _PAIR.sub("", str(key)).strip(" ;,\n")):
                return {}
            pairs = [(str(key).removeprefix("export "), given)]
            entries |= dict(_PAIR.findall(str(key)) if given is None else pairs)
    return {key: _plain(given) for key, given in entries.items()}


def _plain(value: object) -> object:
    """Return a value of an entry as the text that it is; a number with a point is not known."""
    text = str(int(value)) if isinstance(value, int) else value
    return text.strip(_QUOTES) if isinstance(text, str) else text


def _sizes(text: str) -> Iterator[object]:
    """Yield a number with a unit as a size and as a number, and one without as a size."""
    if match := _UNIT.fullmatch(text):
        count = int(float(match[1]) * UNITS[match[2].upper()])
        yield format_size(count)
        yield count
    # A smaller number is no count of bytes: of what, only its writer knows.
    elif text.isdecimal() and int(text) >= UNITS["M"]:
        yield format_size(int(text))


def right_of(model: type[BaseModel], path: KeyPath, value: object, written: str = "") -> object:
    """Return a value that the key at a path takes, or what it was meant to be there; or None."""
    return value if is_right(model, path, value) else meant(model, path, value, written)


def is_right(model: type[BaseModel], path: KeyPath, value: object) -> bool:
    """Whether a model has nothing against a value at a path."""
    same = tuple(0 if isinstance(key, int) else key for key in path)
    for key in reversed(path):
        value = [value] if isinstance(key, int) else {key: value}
    problems = complaints(model, value, partial=True)
    return not any(problem.path[: len(same)] == same for problem in problems)


def _of_key(model: type[BaseModel], path: KeyPath, value: object, written: str) -> str:
    """Return what to do about a key that another place, another name or no place here has."""
    if then := of_no_key(str(path[-1])):
        return then
    places = places_of(model, path)
    for place in places:
        right = right_of(model, place, value, written)
        if right is not None:
            is_beside = place[:-1] == path[:-1]
            is_long = is_beside and right is value and isinstance(value, dict | list)
            return f"write {place[-1] if is_long else nested(place[len(path) - 1 :], right)}"
    # Of several it can be any, except in its own section.
    if not places or (not path[1:] and len(places) > 1):
        return ""
    if places[0][:-1] == path[:-1]:
        return f"write {places[0][-1]}"
    example = next(examples(model, places[0]), None)
    return f"write, for example, {nested(places[0][len(path) - 1 :], example)}"


def _example(model: type[BaseModel], path: KeyPath, whole: KeyPath) -> str:
    """Return an example of a key; of an entry of a mapping, one of the mapping."""
    holder, field = field_at(model, path)
    if field is not None and keys_of_model(holder).get(str(path[-1])) is not field:
        whole = whole[:-1]
    return next(
        (_line(whole, example) for example in examples(model, path)), "one of the allowed values"
    )


def nested(path: KeyPath, value: object) -> str:
    """Return a value with all keys above it, as it is written in one line."""
    for key in reversed(path[1:]):
        value = {key: value}
    return _line(path[:1], value)


def _line(path: KeyPath, value: object) -> str:
    """Return a key and its value as they are written; the value alone in a list."""
    name = path[-1] if path and isinstance(path[-1], str) else ""
    return f"{name}: {as_yaml(value)}" if name else as_yaml(value)


def as_yaml(value: object) -> str:
    """Return a value as it is written in one line of YAML."""
    try:
        text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    except yaml.YAMLError:  # of a Python inventory: an object that no cluster file can have
        return quoted(str(value))
    line = text.removesuffix("\n").removesuffix("\n...")
    return json.dumps(value) if isinstance(value, str) and line.startswith("'") else line
