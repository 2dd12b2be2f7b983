"""What to write in place of a wrong value: the first candidate that its model accepts."""

import json
import re
from collections.abc import Iterator
from difflib import get_close_matches

import yaml
from pydantic import BaseModel

from gpu_node.inventories.errors import KeyPath, Problem, quoted
from gpu_node.inventories.fields.addresses import login_of
from gpu_node.inventories.fields.sizes import UNITS, format_size
from gpu_node.inventories.fields.variables import is_secret
from gpu_node.inventories.keys import (
    allowed_at,
    complaints,
    examples,
    field_at,
    flat_key,
    keys_of_model,
    leaf_paths,
    section,
    short_of,
    words,
)

_QUOTES = " \t\"'`\u2018\u2019\u201a\u201c\u201d\u201e"
# What people write for a word that YAML or a key has.
SYNONYMS: dict[str, bool] = {
    **dict.fromkeys(("1", "y", "yes", "on", "true", "enable", "enabled"), True),
    **dict.fromkeys(("0", "n", "no", "off", "false", "disable", "disabled"), False),
}
_OTHER_NAMES = {
    **dict.fromkeys(("ip", "host", "hostname", "addr"), "address"),
    **dict.fromkeys(("node", "nodes", "servers", "machines"), "hosts"),
    **dict.fromkeys(("all", "vars", "common"), "defaults"),
    **dict.fromkeys(("environment", "variables"), "env"),
    **{"become": "sudo", "identity": "key"},
}
_WORDS = {
    **dict.fromkeys(("-1", "inf", "infinity", "infinite", "max"), "unlimited"),
    **{"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32"},
}
_SERVER = re.compile(r"[a-z0-9][a-z0-9-]*(\.[a-z0-9-]+)+(:[0-9]+)?(/\S*)?")
_UNIT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kmgt])(?:i?b(?:ytes?)?)?", re.IGNORECASE)
_PAIR = re.compile(r"([A-Za-z_]+)\s*(?:[:=]\s*|\s)(\S.*)")
# Nearer than gpu is to cpu.
_NEAR = 0.7
_LONGEST = 200


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
    """
    path, then = problem.path[level:], problem.then
    whole = (*problem.path[:-1], name) if name and problem.path else problem.path
    if then or problem.kind == "check":
        return problem
    _, is_near, near = problem.why.rpartition("did you mean ")
    example = _example(model, path, whole)
    if problem.kind == "extra_forbidden":
        then = _of_key(model, path, value, near.rstrip("?") if is_near else "")
    elif is_near:
        then = f"write {near.rstrip('?')}"
    elif problem.kind == "key" and value is None and (pair := _PAIR.fullmatch(str(path[-1]))):
        is_meant = is_right(model, (*path[:-1], pair[1]), pair[2])
        then = f"write {_line((pair[1],), pair[2])}" if is_meant else ""
    elif problem.kind == "missing":
        then = f"add, for example, {example}"
    elif problem.kind == "empty":
        then = f"remove {path[-1]}; or write, for example, {example}"
    if then:
        return problem._replace(then=then)
    if problem.kind == "notation":
        problem = problem._replace(allowed=allowed_at(model, path))
    right = meant(model, path, value, written)
    if right is None:
        return problem._replace(then=f"write, for example, {example}")
    is_in_quotes = isinstance(value, str) and not isinstance(right, str) and as_yaml(right) == value
    found = quoted(f'"{value}"') if is_in_quotes else problem.found
    has_more = isinstance(value, str) and not all(leaf in value for leaf in _leaves(right))
    then = f"write{', for example,' if has_more else ''} {_line(whole, right)}"
    return problem._replace(found=found, then=then)


def meant(model: type[BaseModel], path: KeyPath, value: object, written: str = "") -> object:
    """Return what a wrong value was probably meant to be; None where nothing is near."""
    text = written or str(value)
    place = (*path, key) if (key := short_of(model, path)) else path
    for candidate in (
        *_as_examples(model, path, value),
        *_candidates(value, text, words(model, place)),
    ):
        is_other = candidate != value or type(candidate) is not type(value)
        at = path if isinstance(candidate, dict) else place
        if candidate not in (None, {}, []) and is_other and is_right(model, at, candidate):
            return candidate if len(as_yaml(candidate)) <= _LONGEST else None
    return None


def _as_examples(model: type[BaseModel], path: KeyPath, value: object) -> Iterator[object]:
    """Yield a value in the forms that the examples of its key have."""
    _, field = field_at(model, path)
    for example in examples(model, path):
        one = example[0] if isinstance(example, list) else example
        first = next(iter(one.values())) if isinstance(one, dict) else one
        if isinstance(value, bool) and isinstance(first, str) and first.isdecimal():
            yield str(int(value))
        if isinstance(value, list) and first is False:
            yield {str(each): False for each in value}
        if isinstance(value, str) and isinstance(one, dict):
            for pairs in _pairs(value):
                yield {key: _filled(first, each) for key, each in pairs.items()}
                yield {key: _scalar(each) for key, each in pairs.items()}
            # Where any name is a key, that of the example is not meant.
            has_any_key = one is example and field is not None and not section(field)
            if has_any_key is isinstance(first, dict):
                yield [{next(iter(one)): value}] if one is not example else _filled(one, value)


def _filled(example: object, text: str) -> object:
    """Return an example with a text in place of its first value."""
    if not isinstance(example, dict):
        return text
    key, first = next(iter(example.items()))
    if key == "address" and (login := login_of(text)):
        return login
    return {**example, key: _filled(first, text)}


def _pairs(text: str) -> Iterator[dict[str, str]]:
    """Yield a text of KEY=VALUE words, or one KEY: VALUE, as a mapping."""
    words = [each for each in re.split(r"[,;\s]+", text) if each not in ("", "export")]
    pairs = [word.partition("=") for word in words]
    if all(key and sign for key, sign, _ in pairs):
        yield {key: value for key, _, value in pairs}
    if pair := _PAIR.fullmatch(text.strip(_QUOTES)):
        yield {pair[1]: pair[2]}


def _candidates(value: object, written: str, known: list[str]) -> Iterator[object]:
    """Yield what a person may have meant, the likeliest first."""
    if isinstance(value, list) and value:
        yield from _as_one(value)
    if isinstance(value, dict):
        yield [value]
    if not isinstance(value, str | int | float) or len(written) > _LONGEST:
        return
    text = written.strip(_QUOTES)
    # In a name, such as a100_02, the sign stands between two numbers.
    digits = text if text[:1].isalpha() else re.sub(r"(?<=[0-9])[_, ](?=[0-9])", "", text)
    if re.fullmatch(r"-?[0-9]+(\.0+)?", digits):
        yield int(digits.partition(".")[0])
    yield digits
    yield from _sizes(digits)
    yield text
    lower = text.lower()
    yield _WORDS.get(lower)
    yield from get_close_matches(lower, known, n=1, cutoff=_NEAR)
    for word in (lower, *get_close_matches(lower, SYNONYMS, n=1, cutoff=_NEAR)):
        yield SYNONYMS.get(word)
    yield lower
    yield f"{text}%"
    if _SERVER.fullmatch(lower):
        yield f"http://{text}"
    yield re.sub(r"^(0o?|v)", "", lower)
    yield re.split(r"[,\s]+", text.strip("[]{}"))
    if not re.search(r"/| -", text):
        yield text.replace(" ", "")
        yield re.sub(r"[ _]+", "-", lower)
    if len(numbers := re.findall(r"[0-9][0-9.]*", text)) == 1 and text[0] != "-":
        yield _scalar(numbers[0])


def _as_one(items: list[object]) -> Iterator[object]:
    """Yield a list as one mapping: of mappings, of their names, of KEY=VALUE, of names."""
    if all(isinstance(each, dict) for each in items):
        rows = [dict(each) for each in items if isinstance(each, dict)]
        if all(isinstance(row.get("name"), str) for row in rows):
            yield {row.pop("name"): row for row in rows}
        elif all(len(row) == 1 for row in rows):
            yield (one := {key: value for row in rows for key, value in row.items()})
            yield {key: str(value) for key, value in one.items()}
    elif all(isinstance(each, str) for each in items):
        pairs = [re.split(r"\s*[=:]+\s*", str(each), maxsplit=1) for each in items]
        if all(len(pair) == 2 for pair in pairs):
            yield dict(pairs)
    if len(items) == 1:
        yield items[0]


def _leaves(value: object) -> Iterator[str]:
    """Yield the plain values of a mapping, as text."""
    for each in value.values() if isinstance(value, dict) else ():
        yield from _leaves(each) if isinstance(each, dict) else (str(each),)


def _sizes(text: str) -> Iterator[object]:
    """Yield a number with a unit as a size and as a number, and one without as a size."""
    if match := _UNIT.fullmatch(text):
        count = int(float(match[1]) * UNITS[match[2].upper()])
        yield format_size(count)
        yield count
    elif text.isdecimal() and int(text) >= UNITS["K"]:
        yield format_size(int(text))


def _scalar(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"[0-9]+", text) else text


def is_right(model: type[BaseModel], path: KeyPath, value: object) -> bool:
    """Whether a model has nothing against a value at a path."""
    same = tuple(0 if isinstance(key, int) else key for key in path)
    for key in reversed(path):
        value = [value] if isinstance(key, int) else {key: value}
    problems = complaints(model, value, partial=True)
    return not any(problem.path[: len(same)] == same for problem in problems)


def _of_key(model: type[BaseModel], path: KeyPath, value: object, near: str) -> str:
    """Return what to do about a key that does not exist where it is written."""
    name = str(path[-1])
    if is_secret(name):
        return "remove it: no password is stored in an inventory"
    known = keys_of_model(field_at(model, path)[0])
    pair = _PAIR.fullmatch(name)
    if pair and pair[1] in known:
        return f"write {pair[1]}: {pair[2]}"
    plain = name.lower().removeprefix("ansible_")
    other = near or _OTHER_NAMES.get(plain, plain)
    is_tried = isinstance(value, dict) and not near
    if other in known and (not is_tried or is_right(model, (*path[:-1], other), value)):
        return f"write {other}"
    for key in known:
        place = (*path[:-1], key)
        for each in (*words(model, place), *examples(model, place)):
            if isinstance(each, str) and name.lower() in each.split("-"):
                return f"write {key}: {each}"
    for each in leaf_paths(model) if not path[1:] else ():
        if each[1:] and {name.replace("-", "_"), other} & {each[-1], flat_key(each)}:
            given = value if isinstance(value, str | int) else next(examples(model, each))
            return f"write {_nested(each, given)}"
    parts = reversed(re.split("[_.-]", plain))  # node_address, ssh_private_key_file
    named = [other for part in parts if (other := _OTHER_NAMES.get(part, part)) in known]
    # In a section of few keys one alone may take the value.
    taking = [
        key
        for key in (named or (known if path[1:] else ()))
        if value is not None and is_right(model, (*path[:-1], key), value)
    ]
    if taking and (named or not taking[1:]):
        return f"write {_line((taking[0],), value)}"
    return "remove it, or write one of the allowed keys"


def _example(model: type[BaseModel], path: KeyPath, whole: KeyPath) -> str:
    """Return an example of a key; of an entry of a mapping, one of the mapping."""
    holder, field = field_at(model, path)
    if field is not None and keys_of_model(holder).get(str(path[-1])) is not field:
        whole = whole[:-1]
    return next(
        (_line(whole, example) for example in examples(model, path)), "one of the allowed values"
    )


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
    try:
        text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    except yaml.YAMLError:  # of a Python inventory: an object that no cluster file can have
        return quoted(str(value))
    line = text.removesuffix("\n").removesuffix("\n...")
    return json.dumps(value) if isinstance(value, str) and line.startswith("'") else line
