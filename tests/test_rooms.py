"""The house: imports run one way, and an area has the same name in every room."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

from gpu_node.drift.engine.rules import RULES
from gpu_node.facts.areas import AREAS
from gpu_node.facts.node import NodeState

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
# One module of another room that a room may import besides: the register of areas.
MAY_ALSO_IMPORT = {"inventories": {"gpu_node.facts.areas"}}
# A part of a probe that is measured alone, without the command that asks it.
PART_OF_A_PROBE = {
    "bench/nodes/login_script.py": {
        "gpu_node.facts.probe.peers",
        "gpu_node.facts.probe.protocol",
        "gpu_node.facts.probe.request",
        "gpu_node.facts.ssh",
    }
}
ROOMS = {*MAY_IMPORT, "tests", "bench", "docs"}
MODULES = [path for room in MAY_IMPORT for path in sorted((REPOSITORY / room).rglob("*.py"))]
TESTS = sorted((REPOSITORY / "tests").rglob("*.py"))
BENCH = sorted((REPOSITORY / "bench").rglob("*.py"))


def imported(path: Path, less: Collection[str] = ()) -> set[str]:
    """Return the rooms, and the top packages of others, that a module imports, wherever in it.

    Imports of the modules in `less` are left out.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}.difference(less)
        elif isinstance(node, ast.ImportFrom) and node.module not in less:
            names.add(node.module or "" if not node.level else path.parent.name)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.removeprefix("gpu_node.").split(".")[0] for name in names}


def generic(path: Path) -> set[str]:
    """Return the rooms that a module imports by a name that another project may have as well."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names & set(MAY_IMPORT)


def _name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def test_every_room_has_modules() -> None:
    """A renamed room would not be checked."""
    assert {_name(path).split("/")[0] for path in MODULES} == set(MAY_IMPORT)


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_imports_run_one_way(path: Path) -> None:
    """A module imports its own room and those it may know."""
    room = _name(path).split("/")[0]
    found = imported(path, MAY_ALSO_IMPORT.get(room, ()))
    assert found & ROOMS <= {room, *MAY_IMPORT[room]}


@pytest.mark.parametrize("path", [*MODULES, *TESTS, *BENCH], ids=_name)
def test_rooms_are_imported_by_one_name(path: Path) -> None:
    """`gpu_node.facts`: another project in the environment may have its own `facts`."""
    assert generic(path) == set()


@pytest.mark.parametrize("path", BENCH, ids=_name)
def test_the_benchmarks_measure_commands(path: Path) -> None:
    """They start what a user starts, and import no room: a change of one cannot break them."""
    found = imported(path, PART_OF_A_PROBE.get(_name(path), ()))
    assert found & {*ROOMS, "gpu_node"} <= {"bench"}


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_no_import_below_its_parent(path: Path) -> None:
    """Imports are absolute, so that a reader sees the room."""
    tree = ast.parse(path.read_text())
    assert not any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree))


@pytest.mark.parametrize("path", [*(REPOSITORY / "drift").rglob("*.py")], ids=_name)
def test_drift_does_no_work_on_nodes(path: Path) -> None:
    """Rules and reports are pure: nothing from pyinfra, no processes, no sockets."""
    assert imported(path) & {"pyinfra", "pyinfra_cli", "subprocess", "socket", "paramiko"} == set()


@pytest.mark.parametrize("path", [*MODULES, *BENCH], ids=_name)
def test_a_module_opens_with_a_sentence(path: Path) -> None:
    """Each module opens with its sentence; an empty `__init__.py` is no module of its own."""
    text = path.read_text()
    assert ast.get_docstring(ast.parse(text)) or (path.name == "__init__.py" and not text)


def test_no_two_modules_have_the_same_sentence() -> None:
    """A sentence that fits two modules describes neither."""
    sentences = [ast.get_docstring(ast.parse(path.read_text())) for path in [*MODULES, *BENCH]]
    sentences = [sentence for sentence in sentences if sentence]
    assert len(sentences) == len(set(sentences))


def test_the_areas_are_those_of_the_state_and_of_the_rules() -> None:
    """No area is probed without a rule, and none is judged without being probed."""
    assert {*NodeState.model_fields} - {"unreadable"} == {*AREAS}
    assert {rule.area for rule in RULES.values()} == {*AREAS}


def test_each_room_has_one_link_by_which_it_is_imported() -> None:
    """`src/gpu_node/facts` is `facts`: nothing else is installed."""
    links = {path.name: path.resolve() for path in (REPOSITORY / "src" / "gpu_node").iterdir()}
    links = {name: path for name, path in links.items() if not name.startswith("__")}
    assert links == {room: (REPOSITORY / room).resolve() for room in MAY_IMPORT}
    assert {path.name for path in (REPOSITORY / "src").iterdir()} - {"gpu_node"} <= {
        "gpu_node.egg-info"
    }


def test_rooms_shadow_nothing() -> None:
    """A room's name is no module of Python's own."""
    assert not set(MAY_IMPORT) & set(sys.stdlib_module_names)


def test_the_deploy_keeps_the_state_of_a_run_in_one_object() -> None:
    """`deploy.engine.run.Run`: what a module keeps would outlive its run."""
    kept = re.compile(r"^\w+(: [^=\n]+)? = (\[\]|\{\}|set\(\))$", re.MULTILINE)
    paths = (REPOSITORY / "deploy").rglob("*.py")
    assert [str(path) for path in paths if kept.search(path.read_text())] == []
