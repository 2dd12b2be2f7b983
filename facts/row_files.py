"""Files of rows, YAML: how they are read, and what is wrong with a row, by file, row and key."""

from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

M = TypeVar("M", bound=BaseModel)
_Parser: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Parser):  # type: ignore[misc]
    """YAML takes the last of two keys that are the same: here it is a mistake."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> object:
        made = super().construct_mapping(node, deep=deep)
        if len(made) < len(node.value):
            raise ValueError(f"a key is in one mapping twice{node.start_mark}")
        return made


def parsed(path: Path) -> Any:
    """Return what a file has; no mapping of it may have a key twice."""
    with path.open(encoding="utf-8") as file:
        return yaml.load(file, Loader=_Loader)  # noqa: S506 (a subclass of the safe loader)


def load(path: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of a file by their names; it may be absent."""
    if not path.exists():
        return {}
    loaded: dict[str, dict[str, Any]] = parsed(path)
    for name, row in loaded.items():
        if not isinstance(row, dict):
            raise ValueError(f"{_place(path, name)}: found {row!r}; allowed: a mapping")
    return loaded


def checked(of: type[M], path: Path, name: str, row: dict[str, Any]) -> M:
    """Return a row as its model; a ValueError says what is wrong."""
    try:
        return of.model_validate(row)
    except ValidationError as error:
        place = _place(path, name)
        problems = (f"{place}: {_problem(of, each)}" for each in error.errors())
        raise ValueError("\n".join(problems)) from None


def _place(path: Path, name: str) -> str:
    return f"{'/'.join(path.parts[-3:])}: {name}"


def _problem(of: type[BaseModel], detail: ErrorDetails) -> str:
    """Return what is wrong with a key, and what it takes."""
    key, given = ".".join(map(str, detail["loc"])), detail["input"]
    if detail["type"] == "extra_forbidden":
        return f"{key}: no such key; allowed: {', '.join(_keys(of, detail['loc'][:-1]))}"
    allowed = "a text, in quotes" if detail["type"] == "string_type" else detail["msg"]
    allowed = allowed.removeprefix("Value error, ").removeprefix("Input should be ")
    what = allowed if isinstance(given, dict) else f"found {given!r}; allowed: {allowed}"
    return f"{key}: {what}" if key else what


def _keys(of: type[BaseModel], way: tuple[int | str, ...]) -> list[str]:
    """Return the keys of the mapping to which a way of keys leads."""
    fields = {field.alias or name: field for name, field in of.model_fields.items()}
    if not way:
        return [*fields]
    kinds = fields[str(way[0])].annotation
    models = [each for each in (kinds, *get_args(kinds)) if hasattr(each, "model_fields")]
    return _keys(models[0], way[1:]) if models else []
