"""The installed package: one name, all its data, and room for another project's `facts`."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.release import CLUSTER, ROOMS, built, missing, top_of, tracked
from tests.strings import constants

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[1]
PYINFRA = Path(sys.executable).parent / "pyinfra"
GPU_NODE = ("-c", "from gpu_node.cli.main import main; main()")
IMPORT = "from gpu_node.inventories.groups import groups_of"
INVENTORY = """{IMPORT}

globals().update(groups_of(__file__))
"""
# Another pyinfra project, with names of its own that are also folders of this repository.
OTHER_PROJECT = {
    "facts/__init__.py": "",
    "facts/motto.py": '''from pyinfra.api import FactBase


class Motto(FactBase):
    """What this project asks of a node."""

    def command(self):
        return "echo one project among others"
''',
    "deploy/__init__.py": "",
    "deploy/names.py": "PROJECT = 'other'\n",
    "inventories/__init__.py": "",
    "inventories/here.py": """from deploy.names import PROJECT

others = [("@local", {"project": PROJECT})]
""",
    "both.py": """import json
from pathlib import Path

import deploy
import facts
from deploy.names import PROJECT
from facts.motto import Motto
from pyinfra import host

import gpu_node.deploy
from gpu_node.facts.shm import SharedMemory
from gpu_node.inventories.groups import groups_of

found = {
    "project": [PROJECT, host.data.project, host.get_fact(Motto)],
    "shm": host.get_fact(SharedMemory)["mount"]["fstype"],
    "nodes": [name for name, _ in groups_of(str(Path("site.py").resolve()))["a100"][0]],
    "files": [facts.__file__, deploy.__file__, gpu_node.deploy.__file__],
}
Path("found.json").write_text(json.dumps(found))
""",
    "site.yml": CLUSTER,
    "site.py": INVENTORY.format(IMPORT=IMPORT),
}


def modules() -> list[str]:
    """Return the modules of the rooms."""
    return [each for each in tracked() if each.split("/")[0] in ROOMS and each.endswith(".py")]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the tracked files."""
    return built(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel installs."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A folder with another pyinfra project, and this product's inventory beside it."""
    folder = tmp_path / "project"
    for name, text in OTHER_PROJECT.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], check=True
    )
    (folder / "known_hosts").touch()
    yield folder


def run(installed: Path, cwd: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run Python with the wheel and its requirements, without what .pth files add (-S)."""
    packages = Path(str(metadata.distribution("pyinfra").locate_file(""))).resolve()
    return subprocess.run(
        [sys.executable, "-S", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": f"{installed}:{packages}", "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_wheel_has_no_generic_name(wheel: Path) -> None:
    """`facts` and `deploy` in site-packages would meet those of another pyinfra project."""
    names = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {re.sub(r"-[0-9.]+\.dist-info$", ".dist-info", name) for name in names} == {
        "gpu_node",
        "gpu_node.dist-info",
    }


def test_the_wheel_has_every_file_of_the_rooms(wheel: Path) -> None:
    """Shell, tables, templates and schemas are installed beside the modules."""
    suffixes = {Path(name).suffix for name in tracked() if name.split("/")[0] in ROOMS}
    assert suffixes >= {".sh", ".awk", ".tsv", ".j2", ".json", ".yml", ".py"}
    assert missing(wheel) == []


def test_the_sdist_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """File by file; beside them it has what describes the project, and no tests."""
    made = built(tmp_path, by_sdist=True)
    assert made.name == wheel.name
    sums = [
        {each.filename: each.CRC for each in zipfile.ZipFile(w).filelist} for w in (made, wheel)
    ]
    assert sums[0] == sums[1]
    (sdist,) = tmp_path.glob("*.tar.gz")
    described = {"CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml", "requirements.lock"}
    assert top_of(sdist) == {*described, "MANIFEST.in", "PKG-INFO", "setup.cfg", "src"}


# A program as it is typed, with what follows it.
TYPED = re.compile(r"\bpyinfra (?:-|[A-Z]{2}|\S+\.(?:py|yml)\b)|\bdeploy/\w+\.py")


def test_only_commands_of_the_wheel_are_printed() -> None:
    """pipx offers `gpu-node` alone: not pyinfra's commands, nor files of the repository."""
    assert TYPED.search("run pyinfra INVENTORY --dry") and TYPED.search("deploy/gpu_node.py")
    printed = [(name, text) for name in modules() for text in constants(REPOSITORY / name)]
    assert len(printed) > 1000
    assert [(name, text) for name, text in printed if TYPED.search(text)] == []


def test_another_project_has_its_own_facts_and_deploy(installed: Path, project: Path) -> None:
    """One pyinfra process imports both projects, and each name is the right one."""
    done = run(installed, project, PYINFRA, "-y", "inventories/here.py", "both.py")
    assert done.returncode == 0, done.stderr
    found = json.loads((project / "found.json").read_text())
    assert found == {
        "project": ["other", "other", "one project among others"],
        "shm": "tmpfs",
        "nodes": ["a100-01"],
        "files": [
            str(project / "facts" / "__init__.py"),
            str(project / "deploy" / "__init__.py"),
            str(installed / "gpu_node" / "deploy" / "__init__.py"),
        ],
    }


@pytest.mark.parametrize("fact", ["facts.motto.Motto", "gpu_node.facts.shm.SharedMemory"])
def test_pyinfra_reads_facts_of_both_projects(installed: Path, project: Path, fact: str) -> None:
    """`pyinfra INVENTORY fact NAME` finds each by its name."""
    done = run(installed, project, PYINFRA, "inventories/here.py", "fact", fact)
    assert done.returncode == 0, done.stderr
    assert ("one project" in done.stderr) == fact.startswith("facts.")
    assert ('"fstype"' in done.stderr) == fact.startswith("gpu_node.")


def test_gpu_node_runs_beside_another_project(installed: Path, project: Path) -> None:
    """Its commands use their own modules, and an inventory there may import that project's."""
    assert run(installed, project, *GPU_NODE, "--help").returncode == 0
    text = (project / "site.py").read_text()
    (project / "site.py").write_text(f"from deploy.names import PROJECT\n{text}")
    done = run(installed, project, *GPU_NODE, "drift", "site.py")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "a100-01" in done.stdout and "Unable to connect" in done.stdout


def third_party(path: Path) -> set[str]:
    """Return the top packages that a module imports, less Python's and this product's."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - {"gpu_node"}


def test_every_import_of_another_package_is_declared(installed: Path) -> None:
    """A package that only another requirement brings may be missing after its next version."""
    (product,) = metadata.distributions(path=[str(installed)])
    requirements = [Requirement(each) for each in product.requires or []]
    declared = {canonicalize_name(each.name) for each in requirements if each.marker is None}
    owners = metadata.packages_distributions()
    # What runs on nodes finds PyTorch there, or does without it; ClusterShell is an extra.
    declared |= {
        canonicalize_name(each.name) for each in requirements if "clustershell" in str(each.marker)
    }
    undeclared = {
        f"{path}: {name}"
        for path in modules()
        for name in third_party(REPOSITORY / path)
        if name != "torch"
        and not declared & {canonicalize_name(owner) for owner in owners.get(name, [])}
    }
    assert undeclared == set()
