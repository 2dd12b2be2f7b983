"""Words that the project avoids: with them a reader has to guess who acts."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
WORDS = re.compile(r"\b(?:said|told|tells|nobody|somebody|whoever)\b", re.IGNORECASE)
WHERE = (
    *("facts", "drift", "deploy", "inventories", "onboarding", "verify", "lab", "cli", "diagnose"),
    "history",
    *("bench", "tests"),
)
MOST = 60
# How often a file may have one of the words, and why.
_ACCOUNT = "the Unix account of that name"
REASONS: dict[str, tuple[int, str]] = {
    "drift/report/anonymous.py": (1, _ACCOUNT),
    "facts/nccl/on_node/library.py": (5, "the uid of the Unix account of that name"),
    "facts/workspace/pointers.sh": (2, _ACCOUNT),
    "lab/faults/shm-closed-to-users.yml": (3, _ACCOUNT),
    "tests/deploy/test_boot_ends.py": (1, _ACCOUNT),
    "tests/deploy/test_undo_timer.py": (11, _ACCOUNT),
    "tests/diagnose/threads/fresh_hidden.yml": (6, "the words of a label that is frozen"),
    "tests/diagnose/threads/fresh_shown.yml": (1, "the words of a label that is frozen"),
    "tests/facts/cases/env.launcher.yml": (1, _ACCOUNT),
    "tests/facts/test_env.py": (2, "the name of a node that does not exist"),
    "tests/facts/test_environment_owner.py": (2, "the uid of the Unix account of that name"),
    "tests/facts/test_limits_misread.py": (2, _ACCOUNT),
    "tests/facts/test_next_boot.py": (2, _ACCOUNT),
    "tests/inventories/test_inventory_fuzz.py": (2, "the home of an account that may not exist"),
    "tests/kernel/test_undo.py": (1, "logind excludes that account by default"),
}


@cache
def found() -> dict[str, int]:
    """Return how many of the words each file has, also one that git does not know yet."""
    names = [*WHERE, "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/*.md"]
    command = ["git", "ls-files", "-z", "-co", "--exclude-standard", "--", *names]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    counts: dict[str, int] = {}
    for name in filter(None, listed.stdout.split("\0")):
        if name == str(Path(__file__).relative_to(REPOSITORY)):
            continue
        path = REPOSITORY / name
        text = path.read_bytes().decode(errors="replace") if path.is_file() else ""  # deleted
        if number := len(WORDS.findall(text)):
            counts[name] = number
    return counts


def test_each_of_the_words_has_its_reason() -> None:
    """A file that is not listed has none of them; one that is listed, no more than it may."""
    allowed = {name: number for name, (number, _) in REASONS.items()}
    assert found() == allowed
    assert all(len(reason) > 10 for _, reason in REASONS.values())


def test_there_are_few() -> None:
    """All together, this file's own included."""
    assert sum(found().values()) + len(WORDS.findall(Path(__file__).read_text())) <= MOST
