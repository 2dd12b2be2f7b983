"""The keys of the models of an inventory, and what is wrong with a written value of one."""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from gpu_node.inventories.errors import (
    KeyPath,
    Problem,
    Wrong,
    at,
    did_you_mean,
    quoted,
    shown,
)
from gpu_node.inventories.fields import kinds as fields
from gpu_node.inventories.model import MARK, Model


def flat_key(path: KeyPath) -> str:
    """The host data key of a field: shm_size for shm.size."""
    return "_".join(map(str, path))


@cache
def leaf_paths(model: type[BaseModel]) -> tuple[KeyPath, ...]:
    """The path of every value that a model holds, sections left out."""
    paths: list[KeyPath] = []
    for name, field in keys_of_model(model).items():
        inner = section(field)
        paths += [(name, *path) for path in leaf_paths(inner)] if inner else [(name,)]
    return tuple(paths)


def keys_of_model(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """The fields of a model by the keys that a person writes for them."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def complaints(model: type[BaseModel], value: object, *, partial: bool = False) -> list[Problem]:
    """Return what is wrong with a written value of a model.

    A partial value may leave out keys of its sections: another level can set them.
    """
    problems = {problem.path: problem for problem in _left_empty(model, value)}
    try:
        model.model_validate(value, context=fields.WRITTEN)
    except ValidationError as error:
        for detail in error.errors():
            place = detail["loc"]
            # No other level can set what an item of a list lacks.
            is_of_a_section = len(place) > 1 and not any(isinstance(key, int) for key in place)
            if not (partial and detail["type"] == "missing" and is_of_a_section):
                problem = _problem(model, detail)
                problems.setdefault(problem.path, problem)
    return list(problems.values())


def spelled_out(model: type[BaseModel], value: object) -> Iterator[tuple[KeyPath, object]]:
    """The sections of a written value for which a word stands, each with the mapping it means.

    A word, or a whole number, that is not allowed there stays: it is reported under its key.
    """
    for name, field in model.model_fields.items():
        inner, written = section(field), at(value, (name,))
        is_word = isinstance(written, str | int) and not isinstance(written, bool)
        if inner and is_word and (short := _short(inner)):
            meant = {short: written}
            if not any(problem.path == (short,) for problem in complaints(inner, meant)):
                yield (name,), meant


def _short(model: type[BaseModel]) -> str:
    return model.SHORT if issubclass(model, Model) else ""


def _left_empty(model: type[BaseModel], value: object) -> Iterator[Problem]:
    """A section may be empty; a key without its value is neither set nor left out."""
    written = value if isinstance(value, dict) else {}
    for path in (path for path in leaf_paths(model) if path[0] in written):
        holder = at(value, path[:-1])
        if isinstance(holder, dict) and holder.get(path[-1], "") is None:
            why = "remove the key to leave it unset"
            field = field_at(model, path)[1]
            allowed = _allowed(field, model)
            is_needed = field is not None and field.is_required() and not path[1:]
            kind = "missing" if is_needed else "empty"
            yield Problem(path, "nothing", "" if is_needed else why, allowed, kind=kind)


def _problem(model: type[BaseModel], detail: ErrorDetails) -> Problem:
    path = tuple(key for key in detail["loc"] if not str(key).startswith(MARK))
    kind = detail["type"]
    if path[-1:] == ("[key]",):  # pydantic's mark for the key of a mapping
        path, kind = path[:-1], "key"
    holder, field = field_at(model, path)
    if kind == "extra_forbidden":
        known = sorted(keys_of_model(holder))
        why = f"no such key{did_you_mean(str(path[-1]), known)}"
        return Problem(path, quoted(str(path[-1])), why, ", ".join(known), kind=kind)
    found = "nothing" if kind == "missing" else shown(detail["input"])
    error = detail["ctx"]["error"] if detail["type"] == "value_error" else None
    why = fields.reason(error) if error else ""
    then = error.then if isinstance(error, Wrong) else ""
    shapes = map(type, examples(model, path))
    if not why and found in ("a list", "a mapping") and not {list, dict} & {*shapes}:
        why = "it takes one value"
    if error and not why and (odd := re.search(r"[^\x00-\x7f]", str(detail["input"]))):
        why = f"{odd[0]} is not ASCII"
    return Problem(path, found, why, _allowed(field, holder), then, kind)


def allowed_at(model: type[BaseModel], path: KeyPath) -> str:
    """Return what the key at a path takes, in words."""
    holder, field = field_at(model, path)
    return _allowed(field, holder)


def short_of(model: type[BaseModel], path: KeyPath) -> str:
    """Return the key that a word in the place of a section stands for; empty where none can."""
    inner = model_at(model, path)
    return _short(inner) if inner else ""


def model_at(model: type[BaseModel], path: KeyPath) -> type[BaseModel] | None:
    """Return the model of the value at a path; None for a plain value."""
    holder, field = field_at(model, path)
    return section(field) if field else holder


def _allowed(field: FieldInfo | None, holder: type[BaseModel]) -> str:
    inner = section(field) if field else holder
    if inner and issubclass(inner, Model) and inner.EXAMPLE:
        return f"a mapping, such as {inner.EXAMPLE}"
    if inner:
        keys = sorted(keys_of_model(inner))
        mapping = f"a mapping with the {'keys' if keys[1:] else 'key'} {', '.join(keys)}"
        short = _short(inner) if field else ""
        return f"{_description(inner.model_fields[short])}; or {mapping}" if short else mapping
    assert field is not None
    return _description(field)


def _description(field: FieldInfo) -> str:
    return next((kind.description for kind in _kinds(field) if kind.description), "another value")


def _kinds(field: FieldInfo) -> list[FieldInfo]:
    """The field itself and its kind: the words of `Kind | None` are on Kind."""
    kinds = [meta for kind in get_args(field.annotation) for meta in get_args(kind)[1:]]
    return [kind for kind in (field, *kinds) if isinstance(kind, FieldInfo)]


class Key(NamedTuple):
    """A key of the inventory, what it does, and the values that it takes.

    `default` is None where the key is needed or where the node is left as it is without it.
    """

    path: KeyPath
    does: str
    allowed: str
    default: object
    is_needed: bool


def keys_of(model: type[BaseModel]) -> Iterator[Key]:
    """Yield every key of a model that has a value, in the order of the model."""
    for path in leaf_paths(model):
        holder, field = field_at(model, path)
        assert field is not None
        does = next((kind.title for kind in _kinds(field) if kind.title), "")
        default = None if field.is_required() else field.default
        yield Key(path, does, _allowed(field, holder), default, field.is_required())


def field_at(model: type[BaseModel], path: KeyPath) -> tuple[type[BaseModel], FieldInfo | None]:
    """The field a path leads to, None for a key that no field has, and the model around it."""
    field = None
    for place, key in enumerate(path, 1):
        if field and isinstance(key, int) and (item := _item(field)):
            model, field = item, None
            continue
        inner = section(field) if field else None
        if field and not inner:  # an entry of a mapping such as env
            entry = _entry(field)
            if entry is None or not path[place:]:
                break
            model, field = entry, None
            continue
        model = inner or model
        field = keys_of_model(model).get(str(key))
        if field is None:
            break
    return model, field


def section(field: FieldInfo) -> type[BaseModel] | None:
    """The model that a field holds, None for a plain value."""
    if get_origin(field.annotation) is dict:
        return None
    return _model_in((field.annotation, *get_args(field.annotation)))


def _item(field: FieldInfo) -> type[BaseModel] | None:
    """The model of the items of a list, None for a list of plain values."""
    kinds = [each for kind in get_args(field.annotation) for each in get_args(kind)[:1]]
    return _model_in([each for kind in kinds for each in get_args(kind)])


def _entry(field: FieldInfo) -> type[BaseModel] | None:
    """The model that entries of a mapping can be, None where each is a plain value."""
    return _model_in(_nested(field.annotation))


def _nested(kind: object) -> Iterator[object]:
    yield kind
    for each in get_args(kind):
        yield from _nested(each)


def _model_in(kinds: Iterable[object]) -> type[BaseModel] | None:
    models = (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel))
    return next(models, None)


def examples(model: type[BaseModel], path: KeyPath) -> Iterator[object]:
    """Yield values that the key at a path takes, as they are written."""
    _, field = field_at(model, path)
    if inner := model_at(model, path):
        keys = keys_of_model(inner)
        needed = [key for key, each in keys.items() if each.is_required()] or [next(iter(keys))]
        yield {key: next(examples(inner, (key,))) for key in needed}
    for kind in _kinds(field) if field else ():
        yield from kind.examples or ()


def words(model: type[BaseModel], path: KeyPath) -> list[str]:
    """Return the words that the key at a path takes, where it takes some alone."""
    _, field = field_at(model, path)
    return [] if field is None else list(_literals(field.annotation))


def _literals(kind: object) -> Iterator[str]:
    if get_origin(kind) is Literal:
        yield from get_args(kind)
    else:
        for each in get_args(kind):
            yield from _literals(each)
