"""Asks pip-audit about the locked packages: `python -m tests.audit` fails for a known flaw.

Without a record of flaws, or without the index, it notes that in the lane's log and passes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

LOCK = Path(__file__).resolve().parents[1] / "requirements-dev.lock"
# A flaw by its id, and why it does not concern this project. An entry that no package needs fails.
ACCEPTED: Mapping[str, str] = {}
SECONDS = 120


def main() -> int:
    """Return 1 where a locked package has a flaw that is not accepted, else 0."""
    answer, problem = _ask()
    if answer is None:
        print(f"pip-audit: the packages were not checked: {problem}")
        return 0
    wrong = problems(answer, ACCEPTED)
    for line in wrong:
        print(line, file=sys.stderr)
    skipped = unchecked(answer)
    if skipped:
        print(f"pip-audit: the index has no record of {len(skipped)} packages: {skipped[0]} ...")
    return 1 if wrong else 0


def problems(answer: Sequence[Mapping[str, Any]], accepted: Mapping[str, str]) -> list[str]:
    """Return a line for each flaw that is not `accepted`, and for each excess of `accepted`.

    `answer` is the list `dependencies` of pip-audit's JSON.
    """
    found = {
        flaw["id"]: (package, flaw) for package in answer for flaw in package.get("vulns") or ()
    }
    wrong = [
        f"{package['name']} {package['version']}: {name}; fixed in "
        f"{', '.join(flaw.get('fix_versions') or ()) or 'no release'}: lock another release, "
        "or give the reason in tests/audit.py"
        for name, (package, flaw) in found.items()
        if name not in accepted
    ]
    if not unchecked(answer):
        wrong += [
            f"tests/audit.py accepts {name}, which no locked package has: take it out"
            for name in accepted
            if name not in found
        ]
    return wrong


def unchecked(answer: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the packages that the index has no record of."""
    return [package["name"] for package in answer if "skip_reason" in package]


def _ask() -> tuple[list[dict[str, Any]] | None, str]:
    """Return what pip-audit reports, or None and why there is no report."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes"]
    command += ["--progress-spinner", "off", "--format", "json", "-r", str(LOCK)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return None, f"no answer within {SECONDS} s"
    try:
        answer: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        lines = done.stderr.strip().splitlines()
        return None, lines[-1] if lines else f"exit {done.returncode}, no output"
    return answer, ""


if __name__ == "__main__":
    sys.exit(main())
