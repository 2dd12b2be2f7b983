"""The hooks of .pre-commit-config.yaml pass on the files of the project, and fail on a bad one."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.facts.test_probe_syntax import EXCLUDED

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[1]
CONFIGURATION = yaml.safe_load((REPOSITORY / ".pre-commit-config.yaml").read_text())
HOOKS = {hook["id"]: hook for repo in CONFIGURATION["repos"] for hook in repo["hooks"]}
BAD = {
    "ruff-format": ("bad.py", "x  =  1\n"),
    "ruff-check": ("bad.py", "import os\n"),
    "shellcheck": ("bad.sh", "#!/bin/sh\nrm $1/*\n"),
}


def run(hook: dict[str, Any], *files: str) -> subprocess.CompletedProcess[str]:
    """Run a hook as pre-commit does; the environment may be another folder than .venv."""
    program, *options = shlex.split(hook["entry"])
    found = str(Path(sys.executable).parent / Path(program).name) if "/" in program else program
    return subprocess.run(
        [found, *options, *files], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )


def files_of(hook: dict[str, Any]) -> list[str]:
    """Return the tracked files that a hook reads."""
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    pattern = r"\.py$" if hook.get("types") == ["python"] else hook["files"]
    return [file for file in tracked if re.search(pattern, file)]


def test_each_hook_is_local_and_has_a_bad_file() -> None:
    """No hook is fetched from elsewhere."""
    assert {repo["repo"] for repo in CONFIGURATION["repos"]} == {"local"}
    assert HOOKS.keys() == BAD.keys()


@pytest.mark.parametrize("name", BAD)
def test_a_hook_passes_on_the_project(name: str) -> None:
    """All tracked files of its kind."""
    files = files_of(HOOKS[name])
    done = run(HOOKS[name], *files)
    assert files
    assert (done.stdout + done.stderr, done.returncode) == ("", 0)


@pytest.mark.parametrize("name", BAD)
def test_a_hook_fails_on_a_bad_file(name: str, tmp_path: Path) -> None:
    """It ends with an exit code other than 0."""
    file, text = BAD[name]
    (tmp_path / file).write_text(text)
    assert run(HOOKS[name], str(tmp_path / file)).returncode != 0


def test_shellcheck_leaves_out_the_same_as_the_tests() -> None:
    """The list of codes is in both places."""
    assert EXCLUDED in shlex.split(HOOKS["shellcheck"]["entry"])
