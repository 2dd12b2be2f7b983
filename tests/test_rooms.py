"""The house: imports run one way, and an area has the same name in every room."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from drift.rules import RULES
from facts.node import NodeState

REPOSITORY = Path(__file__).parent.parent
# A room and the rooms it may import.
MAY_IMPORT: dict[str, set[str]] = {
    "inventories": set(),
    "facts": set(),
    "drift": {"facts", "inventories"},
    "deploy": {"drift", "facts", "inventories"},
    "verify": {"facts", "inventories"},
    "onboarding": {"deploy", "drift", "facts", "inventories", "verify"},
    "lab": set(),
    "cli": {"deploy", "drift", "facts", "inventories", "lab", "onboarding", "verify"},
}
ROOMS = {*MAY_IMPORT, "tests", "bench", "docs"}
MODULES = [path for room in MAY_IMPORT for path in sorted((REPOSITORY / room).rglob("*.py"))]
AREAS = sorted({rule.area for rule in RULES.values()})


def imported(path: Path) -> set[str]:
    """Return the top packages that a module imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "" if not node.level else path.parent.name)
    return {name.split(".")[0] for name in names}


def _name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def test_every_room_has_modules() -> None:
    """A room that was renamed would not be looked at."""
    assert {_name(path).split("/")[0] for path in MODULES} == set(MAY_IMPORT)


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_imports_run_one_way(path: Path) -> None:
    """A module imports its own room and those it may know."""
    room = _name(path).split("/")[0]
    assert imported(path) & ROOMS <= {room, *MAY_IMPORT[room]}


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_no_import_below_its_parent(path: Path) -> None:
    """Imports are absolute, so that a reader sees the room."""
    tree = ast.parse(path.read_text())
    assert not any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree))


@pytest.mark.parametrize("path", [*(REPOSITORY / "drift").rglob("*.py")], ids=_name)
def test_drift_does_no_work_on_nodes(path: Path) -> None:
    """Rules and reports are pure: nothing from pyinfra, no processes, no sockets."""
    assert imported(path) & {"pyinfra", "pyinfra_cli", "subprocess", "socket", "paramiko"} == set()


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_a_module_says_what_it_is(path: Path) -> None:
    """Each module opens with its sentence, and stays short enough to be read."""
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text))
    assert len(text.splitlines()) <= 300


def test_no_two_modules_say_the_same() -> None:
    """A sentence that is true of two modules says nothing."""
    said = [ast.get_docstring(ast.parse(path.read_text())) for path in MODULES]
    assert len(said) == len(set(said))


@pytest.mark.parametrize("area", AREAS)
def test_an_area_has_one_name_in_every_room(area: str) -> None:
    """Facts, rules and steps of an area are found by its name."""
    for folder in ("facts", "drift/rules", "deploy/steps", "deploy/operations"):
        assert (REPOSITORY / folder / f"{area}.py").is_file(), folder


def test_the_areas_are_those_of_the_state() -> None:
    """No area is probed without a rule, and none is judged without being probed."""
    assert sorted(set(NodeState.model_fields) - {"unreadable"}) == AREAS


def test_rooms_shadow_nothing() -> None:
    """A room's name is no module of Python's own."""
    assert not set(MAY_IMPORT) & set(sys.stdlib_module_names)
