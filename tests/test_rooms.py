"""The house: imports run one way, and an area has the same name in every room."""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections.abc import Callable, Collection, Iterable
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from gpu_node.drift.engine.registry import RULES
from gpu_node.facts.areas import AREAS
from gpu_node.facts.node import NodeState
from tests.strings import tree

REPOSITORY = Path(__file__).parent.parent
# ruff has each `import` on a line of its own.
_IMPORT = re.compile(r"^[ ]*(?:from|import) (\w+)\b", re.MULTILINE)
# The table of rooms: a room, what it contains, and what it may import.
_ROW = re.compile(r"^\| `(\w+)/` \| .* \| ([^|]*) \|$", re.MULTILINE)
TABLE = dict(_ROW.findall((REPOSITORY / "docs" / "ARCHITECTURE.md").read_text()))
PRODUCT = {link.name for link in (REPOSITORY / "src" / "gpu_node").iterdir() if link.is_dir()}
PRODUCT -= {"__pycache__"}


def _named(room: str, pattern: str) -> set[str]:
    """Return what the table's row of a room names; "all of the above" is the rooms before it."""
    above = itertools.takewhile(lambda each: each != room, TABLE)
    words = TABLE[room].replace("all of the above", ", ".join(f"`{each}`" for each in above))
    return set(re.findall(pattern, words))


# A room and the rooms it may import, and modules of others that it may import besides.
MAY_IMPORT = {room: _named(room, r"`(\w+)/?`") for room in TABLE if room in PRODUCT}
MAY_ALSO_IMPORT = {
    room: {f"gpu_node.{each.replace('/', '.')}" for each in _named(room, r"`(\w+/\w+)\.py`")}
    for room in MAY_IMPORT
}
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


def _offenders(paths: Iterable[Path], offence: Callable[[Path], object]) -> dict[str, object]:
    """Return what is wrong with each module of which something is."""
    return {_name(path): found for path in paths if (found := offence(path))}


def imported(path: Path, less: Collection[str] = ()) -> set[str]:
    """Return the rooms, and the top packages of others, that a module imports, wherever in it.

    Imports of the modules in `less` are left out.
    """
    names: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}.difference(less)
        elif isinstance(node, ast.ImportFrom) and node.module not in less:
            names.add(node.module or "" if not node.level else path.parent.name)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.removeprefix("gpu_node.").split(".")[0] for name in names}


def generic(path: Path) -> set[str]:
    """Return the rooms that a module imports by a name that another project may have as well."""
    names: set[str] = set()
    if {*_IMPORT.findall(path.read_text())} & {*MAY_IMPORT}:  # or it is a text alone
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.split(".")[0])
    return names & set(MAY_IMPORT)


def _name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def test_every_room_has_modules() -> None:
    """A renamed room would not be checked, nor one that the table lacks."""
    assert {_name(path).split("/")[0] for path in MODULES} == set(MAY_IMPORT) == PRODUCT


def test_the_table_is_read() -> None:
    """The control: rooms that may import nothing, some, and all above them; and one module."""
    assert (MAY_IMPORT["facts"], MAY_IMPORT["drift"]) == (set(), {"facts", "inventories"})
    above = {"deploy", "diagnose", "drift", "facts", "history", "inventories", "verify"}
    assert MAY_IMPORT["onboarding"] == above
    assert MAY_ALSO_IMPORT["inventories"] == {"gpu_node.facts.areas", "gpu_node.facts.globs"}


def test_imports_run_one_way() -> None:
    """A module imports its own room and those it may know."""

    def others(path: Path) -> set[str]:
        room = _name(path).split("/")[0]
        return imported(path, MAY_ALSO_IMPORT.get(room, ())) & ROOMS - {room, *MAY_IMPORT[room]}

    assert _offenders(MODULES, others) == {}


def test_rooms_are_imported_by_one_name() -> None:
    """`gpu_node.facts`: another project in the environment may have its own `facts`."""
    assert _offenders([*MODULES, *TESTS, *BENCH], generic) == {}


def modules_imported(path: Path, modules: Collection[str]) -> set[str]:
    """Return those of `modules` that a module imports, wherever in it, also for typing alone."""
    named: set[str] = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            several = {f"{node.module}.{alias.name}" for alias in node.names}
            named |= several & {*modules} or {str(node.module)}
    return named & {*modules}


def _module(path: Path) -> str:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(["gpu_node", *(part for part in parts if part != "__init__")])


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_no_module_imports_itself_through_others(room: str) -> None:
    """Neither when it runs nor for typing: each can be read after those that it imports."""
    paths = {_module(path): path for path in (REPOSITORY / room).rglob("*.py")}
    imports = {name: modules_imported(path, paths) for name, path in paths.items()}
    TopologicalSorter(imports).prepare()  # a CycleError names the circle


def areas_named(text: str) -> set[str]:
    """Return how a module names areas: it imports one, reads its state, or has a word of it."""
    # pyinfra calls a node a host; `checks` of the inventory turns rules of any area off; a problem
    # has words of its own.
    words = {*AREAS} - {"host", "checks", "own"}
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            several = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            found |= {each for each in several if _area_of(each) in AREAS}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if _area_of(alias.name) in AREAS}
        elif isinstance(node, ast.Attribute) and node.attr in words:
            found.add(ast.unparse(node))
        elif isinstance(node, ast.Constant) and str(node.value).split(".")[0] in words:
            found.add(str(node.value))
    return found


def _area_of(module: str) -> str:
    return [*module.split("."), "", ""][2] if module.startswith("gpu_node.") else ""


ENGINES = [path for path in MODULES if path.parent.name == "engine"]


def test_an_engine_names_no_area() -> None:
    """An area adds what the engine needs by its `HOOKS`, a script by the lines of its head."""
    named = _offenders(ENGINES, lambda path: areas_named(path.read_text()))
    assert named == {}, "declare it in HOOKS of the area's __init__.py"
    text = (REPOSITORY / "deploy" / "engine" / "scripts.py").read_text()
    own = {each.stem for area in AREAS for each in (REPOSITORY / "deploy" / area).glob("*.sh")}
    assert {name for name in own if f'"{name}"' in text} == set()


# What a report is: with its model come the facts of each area.
MODEL = ("model.py", "seen.py")
REPORTS = [path for path in MODULES if path.match("drift/report/*.py") and path.name not in MODEL]


def test_a_report_names_no_area() -> None:
    """What it shows of one is in the area's modules `shown` and `kind`."""
    assert REPORTS and _offenders(REPORTS, lambda path: areas_named(path.read_text())) == {}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (
            "from gpu_node.drift.nccl import rules",
            {"gpu_node.drift.nccl", "gpu_node.drift.nccl.rules"},
        ),
        ("from gpu_node.drift import ssh", {"gpu_node.drift.ssh"}),
        ("import gpu_node.facts.host", {"gpu_node.facts.host"}),
        ("user = found.limits.user", {"found.limits"}),
        ("ONLY = 'ssh.', 'nccl.differs'", {"ssh.", "nccl.differs"}),
        ("from pyinfra import host; host.name; print('the driver is one')", set()),
    ],
)
def test_what_names_an_area(text: str, named: set[str]) -> None:
    assert areas_named(text) == named


def test_the_benchmarks_measure_commands() -> None:
    """They start what a user starts, and import no room: a change of one cannot break them."""

    def rooms(path: Path) -> set[str]:
        found = imported(path, PART_OF_A_PROBE.get(_name(path), ()))
        return found & {*ROOMS, "gpu_node"} - {"bench"}

    assert _offenders(BENCH, rooms) == {}


def test_no_import_below_its_parent() -> None:
    """Imports are absolute, so that a reader sees the room."""

    def relative(path: Path) -> list[str]:
        nodes = (each for each in ast.walk(tree(path)) if isinstance(each, ast.ImportFrom))
        return [ast.unparse(each) for each in nodes if each.level]

    assert _offenders(MODULES, relative) == {}


def test_drift_does_no_work_on_nodes() -> None:
    """Rules and reports are pure: nothing from pyinfra, no processes, no sockets."""
    work = {"pyinfra", "pyinfra_cli", "subprocess", "socket", "paramiko"}
    paths = (REPOSITORY / "drift").rglob("*.py")
    assert _offenders(paths, lambda path: imported(path) & work) == {}


def test_a_module_opens_with_a_sentence() -> None:
    """Each module opens with its sentence; an empty `__init__.py` is no module of its own."""

    def is_silent(path: Path) -> bool:
        is_empty = path.name == "__init__.py" and not path.read_text()
        return not is_empty and not ast.get_docstring(tree(path))

    assert _offenders([*MODULES, *BENCH], is_silent) == {}


def test_no_two_modules_have_the_same_sentence() -> None:
    """A sentence that fits two modules describes neither."""
    sentences = [ast.get_docstring(tree(path)) for path in [*MODULES, *BENCH]]
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
