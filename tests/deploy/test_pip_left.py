"""Start files of an environment may print anything: environment_pip.sh, and the steps."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.deploy.engine.scripts import script, text
from gpu_node.lab.wheels import wheel
from tests import environments
from tests.deploy.test_wheels import pip_as_it_is
from tests.environments import CU11, CU12, Environment
from tests.node_scripts import run, tree
from tests.shells import SHELLS

__all__ = ["pip_as_it_is"]
STEPS = {
    "wheels": {"keep": CU12, "remove": "nvidia-nccl-cu11"},
    "packages_pip": {"pins": "six==1.16.0"},
}
INSTALLED = {"wheels": "nvidia-nccl-cu12", "packages_pip": "six"}
HALF = "six-1.15.0.dist-info"
# In place of an environment's Python, whose arguments are -I -B -c CODE WHAT MARK NAME...
PRINTS = """#!/bin/sh
sed "s,MARK,$6," <<'END'
{lines}
END
exit {code}
"""
# Lists in place of removing: some of the lines name the root of this machine.
LISTS = """
rm() {{ shift 2; echo "$(pwd -P) $*" >>{removed}; }}
prefix={folder}/env python={folder}/python asked= work={folder}/work.aB3xY9
mkdir "$work"
remove_left halves six
"""


@pytest.fixture
def made(tmp_path: Path) -> Environment:
    """An environment with both NCCL wheels, whose pip also finds six."""
    made = environments.environment(tmp_path / "env", "torch", CU12, CU11)
    index = tmp_path / "index"
    index.mkdir()
    wheel(index, "six", "1.16.0", {"six.py": b""}, [])
    config = f"[global]\nno-index = true\nfind-links = {index} {environments.index()}\n"
    (made.prefix / "pip.conf").write_text(config)
    return made


def step(name: str, made: Environment, shell: str = "dash") -> subprocess.CompletedProcess[str]:
    """Run a step on an environment."""
    given = {"prefix": str(made.prefix), "allow": "yes", "insecure": "yes", **STEPS[name]}
    asked = script(name, **given).get_raw_value()
    return subprocess.run(
        [*SHELLS[shell], "-c", asked], capture_output=True, text=True, check=False
    )


@pytest.mark.pip
@pytest.mark.parametrize("name", STEPS)
def test_a_start_file_that_prints(made: Environment, tmp_path: Path, name: str, shell: str) -> None:
    """The step does its work, and removes nothing that the start file names."""
    kept = tmp_path / "kept"
    other = kept / "lib" / "site-packages" / HALF
    other.mkdir(parents=True)
    (other / "METADATA").write_text("Name: linked\nVersion: 1.0")
    (kept / "canary").write_text("sings")
    before = tree(kept)
    (made.packages / "linked-1.0.dist-info").symlink_to(other)
    (made.packages / "canary").write_text("sings")
    inside = [made.packages / each for each in ("linked-1.0.dist-info", "canary", "torch")]
    # The step works in /.
    noise = [kept / "canary", str(kept / "canary")[1:], f"../{kept}/canary", other, *inside]
    printed = "\\n".join([*map(str, noise), "no end of line"])
    (made.packages / "noise.py").write_text(f'import sys; sys.stdout.write("{printed}")\n')
    (made.packages / "noise.pth").write_text("import noise\n")
    done = step(name, made, shell)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert tree(kept) == before
    assert all(os.path.lexists(path) for path in inside)
    assert INSTALLED[name] in made.distributions
    assert not list(made.prefix.glob(".gpu-node*"))


@pytest.mark.pip
@pytest.mark.parametrize("name", STEPS)
def test_packages_that_an_environment_shares(made: Environment, tmp_path: Path, name: str) -> None:
    """What pip has left of them is not the environment's, and stays."""
    shared = tmp_path / "base" / "site-packages"
    for each in (HALF, "nvidia_nccl_cu12-2.18.1.dist-info"):
        (shared / each).mkdir(parents=True)
        (shared / each / "INSTALLERab12.tmp").write_text("pip")
    before = tree(shared)
    (made.packages / "base.pth").write_text(f"{shared}\n")
    done = step(name, made)
    assert before and tree(shared) == before, done.stderr


def listed(tmp_path: Path, shell: str, *lines: object, code: int = 0) -> list[str]:
    """What would be removed where Python prints these lines."""
    python, removed = tmp_path / "python", tmp_path / "removed"
    python.write_text(PRINTS.format(lines="\n".join(map(str, lines)), code=code))
    python.chmod(0o755)
    words = text("environment_pip") + LISTS.format(folder=tmp_path, removed=removed)
    done = run(StringCommand(words), shell)
    assert (done.code, done.out, done.err) == (code, "", "")
    return removed.read_text().splitlines() if removed.exists() else []


def test_only_what_is_marked(tmp_path: Path, shell: str) -> None:
    """The mark is new in each run, and begins the line."""
    path = tmp_path / "env" / "lib" / HALF
    path.mkdir(parents=True)
    lines = ["/", "../x", "", path, f"left-aB3xY8:{path}", f" MARK{path}", f"x MARK{path}"]
    assert listed(tmp_path, shell, *lines) == []


def test_only_what_pip_leaves(tmp_path: Path, shell: str) -> None:
    """Metadata and what was moved away, below the environment, by whatever links it is named."""
    env, out = tmp_path / "env", tmp_path / "environment"
    env.symlink_to(tmp_path / "real")
    packages = tmp_path / "real" / "lib"
    for folder in (packages / HALF, packages / "a b", out / HALF):
        folder.mkdir(parents=True)
    (packages / "out").symlink_to(out)
    (packages.parent / "lib64").symlink_to("lib")
    outside = [
        *("/", "/~x", "/six-info", "//six-info", "~x", "../~x", tmp_path / "~x", out / HALF),
        *(packages / "out" / HALF, f"{packages}/../../~x", env / "missing" / HALF),
    ]
    inside = [
        *(env, packages, packages / "-info", packages / "six.py", packages / "six.tmp"),
        *(f"{packages}/", f"{packages}/.", f"{packages}/..", f"{packages}/{HALF}/"),
        *(f"{packages}/{HALF}/.", f"{packages}/{HALF}/..", packages / "a b" / "x.tmp"),
    ]
    ours = [
        *(env / "lib" / HALF, env / "lib64" / "~ix", packages / "a b" / "~c"),
        packages / HALF / "RECORDab12.tmp",
    ]
    lines = [f"MARK{path}" for path in (*outside, *inside, *ours)]
    assert listed(tmp_path, shell, *lines) == [
        f"{packages} ./{HALF}",
        f"{packages} ./~ix",
        f"{packages}/a b ./~c",
        f"{packages}/{HALF} ./RECORDab12.tmp",
    ]


def test_a_python_that_fails(tmp_path: Path, shell: str) -> None:
    """Its list may not be whole: nothing is removed."""
    (tmp_path / "env" / HALF).mkdir(parents=True)
    assert listed(tmp_path, shell, f"MARK{tmp_path}/env/{HALF}", code=1) == []
