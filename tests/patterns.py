"""The regular expressions of the rooms: how each is applied, and the worst texts for it."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.strings import tree

try:
    from re import _constants as sre  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]
except ImportError:  # Python 3.10
    import sre_constants as sre
    import sre_parse as parser

REPOSITORY = Path(__file__).parent.parent
# Python 3.10 has no possessive repetition and no atomic group.
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, getattr(sre, "POSSESSIVE_REPEAT", None))
_ATOMIC = getattr(sre, "ATOMIC_GROUP", None)
METHODS = ("match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
# What a set of characters is tried with.
_LETTERS = " a0A_-./:=,;\t\"'#@\\([\n%x9~é"
# Ends a text so that a pattern which has taken all before it fails.
_ENDS = ("\0", "\n!")


@dataclass(frozen=True)
class Use:
    """A regular expression, where it is defined, and a method by which it is applied."""

    place: str
    pattern: str | bytes
    flags: int
    method: str

    def apply(self, text: str) -> None:
        """Apply it as the room does, to the end."""
        given = text.encode() if isinstance(self.pattern, bytes) else text
        found = getattr(re.compile(self.pattern, self.flags), self.method)
        if self.method in ("sub", "subn"):
            found(given[:0], given)
        elif self.method == "finditer":
            for _ in found(given):
                pass
        else:
            found(given)


def sources(rooms: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield path and text of each file that runs on the controller, not on a node or a gateway."""
    for room in rooms:
        for path in sorted((REPOSITORY / room).rglob("*.py")):
            name = str(path.relative_to(REPOSITORY))
            if "on_node" not in name and path.name != "on_clustershell.py":
                yield name, path.read_text()


def _module(name: str) -> ModuleType:
    dotted = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return import_module(f"gpu_node.{dotted}")


def uses(rooms: Sequence[str]) -> tuple[set[Use], set[str]]:
    """Return what the rooms apply, and where an expression has no value before a run."""
    found: set[Use] = set()
    unknown: set[str] = set()
    every = dict(sources(rooms))
    whole = _methods("\n".join(every.values()))
    for name, source in every.items():
        if "import re\n" not in source:
            continue
        module, here = _module(name), _methods(source)
        assigned = set(re.findall(r"(?m)^(\w+)\b.*=", source))
        for variable, value in vars(module).items():
            if variable in assigned:
                methods = here[variable] or whole[variable]
                found |= {
                    Use(f"{name}: {variable}", each.pattern, each.flags, method)
                    for each in _patterns(value)
                    for method in methods or ("match", "search")
                }
        within = _within_functions(tree(REPOSITORY / name))
        for method, first, flags in filter(None, map(_called, within)):
            try:
                made, number = _value(first, module), int(_value(flags, module) if flags else 0)
            except Exception:  # it has a variable of a function
                unknown.add(f"{name}: {ast.unparse(first)}")
                continue
            found.add(Use(f"{name}: {ast.unparse(first)}", made, number, method))
    return found, unknown


def _within_functions(module: ast.Module) -> Iterator[ast.AST]:
    """Yield what functions do; a compiled expression that is applied at once is not apart."""
    inside = (each for each in ast.walk(module) if isinstance(each, (ast.FunctionDef, ast.Lambda)))
    every = list(dict.fromkeys(node for each in inside for node in ast.walk(each)))
    applied = {
        node.func.value
        for node in every
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in METHODS
    }
    return (node for node in every if node not in applied)


def _called(node: ast.AST) -> tuple[str, ast.expr, ast.expr | None] | None:
    """Return method, pattern and flags of a call such as re.search(...)."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return None
    of, method = node.func.value, node.func.attr
    if isinstance(of, ast.Call) and _is_of_re(of.func, ("compile",)) and method in METHODS:
        return method, of.args[0], [*of.args, None][1]  # re.compile(...).match(...)
    if not _is_of_re(node.func, (*METHODS, "compile")):
        return None
    flags = next((each.value for each in node.keywords if each.arg == "flags"), None)
    place = {"sub": 4, "subn": 4, "split": 3, "compile": 1}.get(method, 2)
    return (
        "search" if method == "compile" else method,
        node.args[0],
        flags or [*node.args, *[None] * 5][place],
    )


def _is_of_re(node: ast.expr, names: Sequence[str]) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "re"
        and node.attr in names
    )


def _value(node: ast.expr, module: ModuleType) -> Any:
    return eval(compile(ast.Expression(node), "<pattern>", "eval"), dict(vars(module)))


def _methods(text: str) -> defaultdict[str, set[str]]:
    """Return how patterns are applied, or those in a mapping, by the name of their variable."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name, method in re.findall(rf"\b(\w+)(?:\[\w+\])?\.({'|'.join(METHODS)})\b", text):
        found[name].add(method)
    return found


def _patterns(value: object, depth: int = 3) -> Iterator[re.Pattern[Any]]:
    """Yield the patterns in a value of a module."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, dict):
        for each in value.values():
            yield from _patterns(each, depth - 1)
    elif depth and isinstance(value, (tuple, list, frozenset, set)):
        for each in value:
            yield from _patterns(each, depth - 1)
    elif depth and hasattr(value, "__dataclass_fields__"):
        yield from _patterns(list(vars(value).values()), depth - 1)


def texts(pattern: str | bytes, flags: int = 0) -> list[Callable[[int], str]]:
    """Return functions that make a text of about so many characters, each bad in another way.

    Each repetition of the pattern is repeated behind the shortest text before it, and the shortest
    texts of the beginnings of the pattern are repeated; what is behind them does not match.
    """
    tokens = list(parser.parse(pattern, flags))
    seeds: dict[tuple[str, str, str], None] = {}
    for before, body in _pumps(tokens, ""):
        for end in _ENDS:
            seeds[before, body, end] = None
            seeds["", before + body, end] = None
    whole = _sample(tokens)
    for length in sorted({1, 2, 3, 4, 6, 8, 12, 16, len(whole)}):
        seeds["", whole[:length], _ENDS[0]] = None
    return [_repeated(*seed) for seed in seeds if seed[1]]


def _repeated(before: str, body: str, end: str) -> Callable[[int], str]:
    return lambda size: before + body * max(1, size // len(body)) + end


def _pumps(tokens: Sequence[Any], before: str) -> Iterator[tuple[str, str]]:
    """Yield what is before each repetition without a limit, and texts that it repeats."""
    for place, (kind, value) in enumerate(tokens):
        ahead = before + _sample(tokens[:place])
        if kind in _REPEATS:
            _, most, inner = value
            if most > 64:
                yield from ((ahead, each) for each in _bodies(list(inner)))
            yield from _pumps(list(inner), ahead)
        elif kind is sre.SUBPATTERN:
            yield from _pumps(list(value[-1]), ahead)
        elif kind is sre.BRANCH:
            for each in value[1]:
                yield from _pumps(list(each), ahead)
        elif kind in (sre.ASSERT, sre.ASSERT_NOT):
            yield from _pumps(list(value[1]), ahead)
        elif kind is _ATOMIC:
            yield from _pumps(list(value), ahead)


def _bodies(tokens: Sequence[Any]) -> list[str]:
    if len(tokens) == 1 and tokens[0][0] in (sre.IN, sre.ANY, sre.NOT_LITERAL, sre.LITERAL):
        fits = _members(tokens[0])
        return list(dict.fromkeys([*fits[:5], *({*fits} & {"\n"})]))
    found = [_sample(tokens), _sample(tokens, least=1)]
    if len(tokens) == 1 and tokens[0][0] is sre.SUBPATTERN:
        found += _bodies(list(tokens[0][1][-1]))
    if len(tokens) == 1 and tokens[0][0] is sre.BRANCH:
        found += [_sample(list(each), least=1) for each in tokens[0][1][1]]
    return list(dict.fromkeys(filter(None, found)))


def _members(token: Any) -> list[str]:
    """Return characters that one element of a pattern takes."""
    kind, value = token
    if kind is sre.LITERAL:
        return [chr(value)]
    if kind is sre.NOT_LITERAL:
        return [each for each in _LETTERS if ord(each) != value]
    if kind is sre.ANY:
        return [each for each in _LETTERS if each != "\n"]
    negated = value[0][0] is sre.NEGATE
    fits = [each for each in _LETTERS if any(_is_in(each, item) for item in value) != negated]
    return fits or [_first(value)]


def _first(items: Sequence[Any]) -> str:
    kind, value = items[0]
    return chr(value[0] if kind is sre.RANGE else value if kind is sre.LITERAL else ord("a"))


def _is_in(letter: str, item: Any) -> bool:
    kind, value = item
    if kind is sre.LITERAL:
        return bool(ord(letter) == value)
    if kind is sre.RANGE:
        return bool(value[0] <= ord(letter) <= value[1])
    if kind is sre.CATEGORY:
        wanted = {
            sre.CATEGORY_DIGIT: letter.isdigit(),
            sre.CATEGORY_NOT_DIGIT: not letter.isdigit(),
            sre.CATEGORY_SPACE: letter.isspace(),
            sre.CATEGORY_NOT_SPACE: not letter.isspace(),
            sre.CATEGORY_WORD: letter.isalnum() or letter == "_",
            sre.CATEGORY_NOT_WORD: not (letter.isalnum() or letter == "_"),
        }
        return bool(wanted[value])
    return False


def _sample(tokens: Sequence[Any], least: int = 0) -> str:
    """Return a short text that the elements of a pattern take; a repetition at least so often."""
    found = []
    for kind, value in tokens:
        if kind in (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN):
            found.append(_members((kind, value))[0])
        elif kind in _REPEATS:
            found.append(_sample(list(value[2]), least) * max(value[0], min(least, value[1])))
        elif kind is sre.SUBPATTERN:
            found.append(_sample(list(value[-1]), least))
        elif kind is sre.BRANCH:
            found.append(_sample(list(value[1][0]), least))
        elif kind is _ATOMIC:
            found.append(_sample(list(value), least))
    return "".join(found)
