"""Errors have one form, from `gpu-node` and under pyinfra, and cost little: see `form.py`.

The command lines are those of cases/ (test_contract.py holds the form of each) and the cluster
files of tests/inventories/bad, with the expected problems beside them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from paramiko import ECDSAKey

from tests.cli.conftest import INVENTORY, fill
from tests.cli.form import PROBLEM, assert_in_form
from tests.cli.running import BIN, REPOSITORY, SECONDS, environment, run
from tests.cli.test_contract import CASES, LONGEST, MOST_MEGABYTES, prepare, read

BAD = REPOSITORY / "tests" / "inventories" / "bad"
FILES = sorted(path.stem for path in BAD.glob("*.yml"))
# Of a whole process, from Python's start to its end.
WHOLE = 2.0
# What may cost much, and each tenth of the others.
STARTED = [
    path
    for number, path in enumerate(CASES)
    if number % 10 == 0 or path.stem.startswith(("hosts_", "list_", "values_", "comments_"))
]


def expected(name: str) -> list[str]:
    """Return the lines of a bad cluster file, as a command prints them."""
    lines = (BAD / f"{name}.txt").read_text().replace("FOLDER", str(BAD)).splitlines()
    return [f"gpu-node: {BAD}/{line}" for line in lines]


@pytest.mark.parametrize("name", FILES)
def test_a_bad_cluster_file(name: str) -> None:
    """All its problems in one run, one line each."""
    done = run("gpu-node", "drift", str(BAD / f"{name}.yml"))
    assert (done.code, done.out) == (1, "")
    assert assert_in_form(done.err) == expected(name)
    assert done.seconds < LONGEST and done.megabytes < MOST_MEGABYTES, done


@pytest.mark.parametrize("name", FILES[::8])
def test_a_bad_cluster_file_under_pyinfra(name: str, tmp_path: Path) -> None:
    """pyinfra prints the same lines, behind its own about what it loads."""
    inventory = tmp_path / "site.py"
    inventory.write_text(INVENTORY.replace("__file__", repr(str(BAD / f"{name}.py"))))
    done = run("pyinfra", str(inventory), "deploy/gpu_node.py", "-y")
    assert (done.code, done.out) == (1, "")
    assert assert_in_form(done.err) == expected(name)


@pytest.mark.parametrize("path", STARTED, ids=lambda path: path.stem)
def test_what_a_command_line_costs(path: Path, tmp_path: Path, key: ECDSAKey) -> None:
    """The real process, from its start: less than 2 s of a processor, and 300 MB."""
    folder = tmp_path / "site"
    folder.mkdir()
    case = read(path, fill(folder, key))
    prepare(case, folder)
    program, *words = case["run"]
    used = tmp_path / "used"
    done = subprocess.run(
        [sys.executable, "-SE", REPOSITORY / "tests/cli/measured.py", used, BIN / program, *words],
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    seconds, megabytes = map(float, used.read_text().split())
    assert done.returncode == case["code"], done
    assert seconds < WHOLE and megabytes < MOST_MEGABYTES, (seconds, megabytes)


@pytest.mark.parametrize("words", [[], ["lab"]])
def test_no_help_of_a_command_is_cut(words: list[str]) -> None:
    """Each has its whole line."""
    done = run("gpu-node", *words, "--help")
    _, _, commands = done.out.partition("Commands:\n")
    assert commands and not [line for line in commands.splitlines() if line.endswith("...")]


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ("gpu-node: found 'a'", True),
        ("gpu-node: /a/site.yml:3: hosts.n: found 'a' (why); allowed: b; next: c", True),
        ("gpu-node: --limit: found 'a'; next: b", True),
        ("gpu-node: no such file", False),
        ("gpu-node: --limit: no value", False),
        ("Error: found 'a'", False),
    ],
)
def test_the_form(line: str, is_one: bool) -> None:
    assert bool(PROBLEM.fullmatch(line)) == is_one
