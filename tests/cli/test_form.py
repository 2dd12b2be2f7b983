"""Errors have one form, from `gpu-node` and under pyinfra, and cost little: see `form.py`.

The command lines are those of cases/ (test_contract.py holds the form of each), and the cluster
files are those of tests/inventories/bad.yml.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from paramiko import ECDSAKey

from gpu_node.inventories.escape import visible
from gpu_node.inventories.schema import InventoryError, load
from tests.case_files import Case
from tests.cli.conftest import INVENTORY, fill
from tests.cli.form import PROBLEM, assert_in_form
from tests.cli.test_contract import CASES, LONGEST, MOST_MEGABYTES, filled, prepare
from tests.commands import BIN, REPOSITORY, SECONDS, environment, run
from tests.inventories.test_inventory_errors import CASES as BAD
from tests.inventories.test_inventory_errors import written

# Of a whole process, from Python's start to its end.
WHOLE = 2.0
# What may cost much, and each tenth of the others.
STARTED = [
    case
    for number, case in enumerate(CASES)
    if number % 10 == 0 or case.name.startswith(("hosts_", "list_", "values_", "comments_"))
]


def expected(file: Path) -> list[str]:
    """Return the problems of a bad cluster file, as a command prints them."""
    with pytest.raises(InventoryError) as error:
        load(file)
    return [f"gpu-node: {visible(line)}" for line in error.value.lines]


@pytest.mark.parametrize("case", BAD[::2], ids=lambda case: str(case["name"]))
def test_a_bad_cluster_file(case: dict[str, Any], tmp_path: Path) -> None:
    """All its problems in one run, one line each."""
    file = written(case, tmp_path)
    done = run("gpu-node", "check", str(file))
    assert (done.code, done.out) == (1, "")
    assert assert_in_form(done.err) == expected(file)
    assert done.seconds < LONGEST and done.megabytes < MOST_MEGABYTES, done


@pytest.mark.parametrize("case", BAD[::16], ids=lambda case: str(case["name"]))
def test_a_bad_cluster_file_under_pyinfra(case: dict[str, Any], tmp_path: Path) -> None:
    """pyinfra prints the same lines, behind its own about what it loads; the report prints them."""
    file = written(case, tmp_path)
    inventory = file.with_suffix(".py")
    inventory.write_text(INVENTORY)
    for words in (
        ("pyinfra", str(inventory), "deploy/gpu_node.py", "-y"),
        ("gpu-node", "drift", str(file)),
    ):
        done = run(*words)
        assert (done.code, done.out) == (1, "")
        assert assert_in_form(done.err) == expected(file)


@pytest.mark.parametrize("named", STARTED, ids=str)
def test_what_a_command_line_costs(named: Case, tmp_path: Path, key: ECDSAKey) -> None:
    """The real process, from its start: less than 2 s of a processor, and 300 MB."""
    folder = tmp_path / "site"
    folder.mkdir()
    case = filled(named.data, fill(folder, key))
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
