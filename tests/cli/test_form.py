"""Errors have one form, from `gpu-node` and under pyinfra, and cost little: see `form.py`.

The command lines are those of cases/ (test_contract.py holds the form of each).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from paramiko import ECDSAKey

from gpu_node.inventories.errors import InventoryError
from gpu_node.inventories.escape import visible
from gpu_node.inventories.schema import load
from tests.case_files import Case
from tests.cli.conftest import INVENTORY, fill
from tests.cli.form import PROBLEM, assert_in_form
from tests.cli.test_contract import CASES, LONGEST, MOST_MEGABYTES, assert_plain, filled, prepare
from tests.commands import BIN, REPOSITORY, SECONDS, environment, run
from tests.pace import pace

# Of a whole process, from Python's start to its end: measured 50 to 100.
WHOLE = 300
# What may cost much, and each twentieth of the others.
STARTED = [
    case for number, case in enumerate(CASES) if number % 20 == 0 or case.name.startswith("hosts_")
]
VALUES = b"""\
cluster: c
defaults: {shm: {size: 8Gb}}
hosts:
  a: {adress: 10.0.0.4}
"""
# One file of each kind: not there, not text, not YAML, values that no key takes. What each value
# is answered is in tests/inventories/bad_files.txt.
KINDS = {
    "missing": None,
    "bytes": b"hosts: \xff\n",
    "text": b"cluster: c\nhosts\n",
    "values": VALUES,
}
# pyinfra's own command, with both forms of an inventory, and ours.
PYINFRA = {
    "pyinfra": ["pyinfra", "site.py", "deploy/gpu_node.py", "-y"],
    "pyinfra @gpu-node": ["pyinfra", "@gpu-node/site.yml", "exec", "--", "true"],
}
OURS = {
    name: ["gpu-node", name, "site.yml", *more]
    for name, more in {
        **dict.fromkeys(("check", "deploy", "drift", "fit", "hostfile", "verify"), ()),
        "probe": ("-o", "out"),
        **dict.fromkeys(("host-key", "restore"), ("a",)),
    }.items()
}
REFUSED = [
    *((kind, words) for kind in KINDS for words in PYINFRA.values()),
    *((kind, OURS["drift"]) for kind in KINDS if kind != "missing"),
    *(("values", words) for name, words in OURS.items() if name != "drift"),
]


@pytest.mark.parametrize(
    ("kind", "words"), REFUSED, ids=[f"{kind}: {' '.join(words[:2])}" for kind, words in REFUSED]
)
def test_a_bad_cluster_file(kind: str, words: list[str], tmp_path: Path) -> None:
    """All its problems in one run, one line each, and 1; pyinfra also prints what it loads."""
    folder = tmp_path / "red \x1b[31m"
    folder.mkdir()
    file = folder / "site.yml"
    if (text := KINDS[kind]) is not None:
        file.write_bytes(text)
    file.with_suffix(".py").write_text(INVENTORY)
    with pytest.raises(InventoryError) as error:
        load(file)
    done = run(*(word.replace("site.", f"{folder}/site.") for word in words))
    assert (done.code, done.out) == (1, "")
    assert_plain(done)
    assert assert_in_form(done.err) == [f"gpu-node: {visible(line)}" for line in error.value.lines]
    assert done.seconds < LONGEST and done.megabytes < MOST_MEGABYTES, done


@pytest.mark.slow
@pytest.mark.parametrize("named", STARTED, ids=str)
def test_what_a_command_line_costs(named: Case, tmp_path: Path, key: ECDSAKey) -> None:
    """The real process, from its start: some work of a processor, and 300 MB."""
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
    assert seconds < WHOLE * pace() and megabytes < MOST_MEGABYTES, (seconds, megabytes)


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
