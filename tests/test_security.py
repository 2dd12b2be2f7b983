"""The check lane searches for known flaws, and each exception has its reason."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.audit import problems
from tests.lanes import LANES

REPOSITORY = Path(__file__).resolve().parents[1]
FLAW = {"id": "PYSEC-1", "fix_versions": ["1.1"]}
CHECKED: dict[str, Any] = {"name": "sound", "version": "2", "vulns": []}
FLAWED: dict[str, Any] = {"name": "flawed", "version": "1.0", "vulns": [FLAW]}
SKIPPED: dict[str, Any] = {"name": "unknown", "skip_reason": "not found"}


def test_a_known_flaw_fails() -> None:
    """The line names the package, the flaw and the release without it."""
    (line,) = problems([CHECKED, FLAWED], {})
    assert line.startswith("flawed 1.0: PYSEC-1; fixed in 1.1: ")


def test_a_flaw_with_a_reason_passes() -> None:
    """Until the flaw is gone; then the exception fails, unless a package was not checked."""
    reason = {"PYSEC-1": "that function is never called"}
    assert problems([FLAWED], reason) == []
    assert "take it out" in problems([CHECKED], reason)[0]
    assert problems([CHECKED, SKIPPED], reason) == []


def test_the_lane_runs_it() -> None:
    """Both programs are commands of the lane `check`."""
    words = [word for command in LANES["check"].commands for word in command]
    assert "tests.audit" in words and "ruff" in words


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("import subprocess\n\nsubprocess.run('ls ' + input(), shell=True)\n", "S602"),
        ("import pickle\n\npickle.loads(input().encode())\n", "S301"),
        ("import yaml\n\nyaml.load(input(), yaml.Loader)\n", "S506"),
        ("from paramiko import client\n\n"
         "c = client.SSHClient()\n"
         "c.set_missing_host_key_policy(client.AutoAddPolicy)\n", "S507"),
        ("eval(input())\n", "S307"),
        ("PATH = '/tmp/fixed'\n", "S108"),
    ],
)  # fmt: skip
def test_ruff_refuses(code: str, rule: str) -> None:
    """The rules of bandit hold in the rooms of the product."""
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "concise"]
    done = subprocess.run(
        [*command, "--stdin-filename", "deploy/example.py", "-"],
        input=code,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
    )
    assert f" {rule} " in done.stdout


def test_each_exception_in_the_code_has_a_reason() -> None:
    """`# noqa: S108 (why)`."""
    rooms = ("cli", "deploy", "drift", "facts", "history", "inventories", "onboarding", "verify")
    marked = [
        f"{path.relative_to(REPOSITORY)}: {line.strip()}"
        for room in rooms
        for path in sorted((REPOSITORY / room).rglob("*.py"))
        for line in path.read_text().splitlines()
        if "noqa" in line and not re.search(r"# noqa: S\d+ \(\w[^()]{9,}\)$", line)
    ]
    assert marked == []


def test_each_rule_left_out_has_a_reason() -> None:
    """In pyproject.toml, behind the rule."""
    text = (REPOSITORY / "pyproject.toml").read_text()
    ignored = re.search(r"\nignore = \[\n(.*?)\n\]", text, re.DOTALL)
    assert ignored
    assert all(re.fullmatch(r'    "S\d+", # .{20,}', line) for line in ignored[1].splitlines())
