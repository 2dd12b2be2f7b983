"""Files of other programs in the place of a cluster file, and the command that is for them."""

from __future__ import annotations

import re
from pathlib import Path

from gpu_node.inventories.errors import Problem
from gpu_node.inventories.regular_file import content

_CSV = "lines of CSV"
_OF_CSV = "gpu-node onboard --from FILE.csv --inventory SITE.yml adds its servers to a cluster file"
_INIT = "gpu-node init DIR NAME=ADDRESS ... writes a cluster file"
# The kinds, in this order: what a text has, and what the file is.
_KINDS = {
    re.compile(
        r"\A(?:[#;].*\n|[ \t\r]*\n)*\[[\w:. -]+\][ \t\r]*$|\bansible_[a-z_]{1,40}=", re.MULTILINE
    ): "an INI file, as Ansible's hosts",
    re.compile(r"^[\"' {]*apiVersion[\"']?:", re.MULTILINE): "an object of Kubernetes",
    re.compile(
        r"^[\w-]+:[ \t]*\n(?:[ \t]*#.*\n)*[ \t]+(?:hosts|children):", re.MULTILINE
    ): "an inventory of Ansible",
    re.compile(r"^- hosts:|^  (?:tasks|roles):", re.MULTILINE): "a playbook of Ansible",
    re.compile(r"^services:", re.MULTILINE): "a file of Docker Compose",
    re.compile(r"^NodeName=", re.MULTILINE): "a file of Slurm",
    re.compile(r"^(?i:host)\s+\S", re.MULTILINE): "a file of ssh_config",
    re.compile(
        r"\A(?:#.*\n|[ \t\r]*\n)*\d+\.\d+\.\d+\.\d+[ \t]+[A-Za-z]", re.MULTILINE
    ): "a hosts file",
    re.compile(r"\A[\w -]+(?:,[^,\n:]*){1,9}\n", re.MULTILINE): _CSV,
}
_SUFFIXES = {".py": ".py", ".yml": ".yml", ".yaml": ".yml"}
_OURS = re.compile(r"^(?:cluster|hosts|groups|defaults)\s*:", re.MULTILINE)


def is_cluster_file(file: Path) -> bool:
    """Whether a file has a key of a cluster file: mkdocs.yml has none."""
    return bool(_OURS.search(_text(file)))


def wrong_suffix(path: str) -> str | None:
    """Return why a file is not an inventory by its suffix, with the next step; None if it may be.

    pyinfra would run any file as Python, also one that is another program's.
    """
    suffix = Path(path).suffix
    if suffix in _SUFFIXES.values():
        return None
    what = f"the suffix {suffix!r}" if suffix else "no suffix"
    text = _text(Path(path))
    right = _SUFFIXES.get(suffix.lower(), ".yml" if _OURS.search(text) else "")
    then = f"; next: rename it to {Path(path).with_suffix(right)}" if right else ""
    if not right and (known := of_another_program(text)):
        what, then = known.found, f"; next: {known.then}"
    return (
        f"{path}: found {what}; allowed: .yml (a cluster file) or .py (pyinfra's inventory){then}"
    )


def _text(file: Path) -> str:
    """Return what a file has; nothing if it cannot be read."""
    try:
        return content(file).decode("utf-8", "replace")
    except OSError:
        return ""


def of_another_program(text: str) -> Problem | None:
    """Return that a text is a file of another program, and what is for it; None for other texts."""
    if _OURS.search(text):
        return None
    for pattern, what in _KINDS.items():
        if pattern.search(text):
            then = _OF_CSV if what is _CSV else _INIT
            return Problem((), what, "", "a cluster file (YAML)", then)
    return None
