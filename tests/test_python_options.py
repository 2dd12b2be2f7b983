"""A Python that a script starts takes no module from its working directory, maybe a user's."""

from __future__ import annotations

import re
from pathlib import Path

ROOMS = [Path(__file__).parents[1] / room for room in ("deploy", "facts")]
CALL = re.compile(r'(?:"\$python"|\bpython[23]?) ((?:-[A-Za-z] )+)(?:\\\n)?\s*(?:\'([^\']*)\')?')
# Python 2.7 has no -I: these begin by dropping that folder, or import what is within Python.
WITHOUT = "sys.path = [folder for folder in sys.path if folder]"
PROGRAMS = {
    "cuda_init.sh": "facts/driver/on_node/cuda_init.py",
    "start.sh": "facts/ports/on_node/ports.py",
}


def test_no_module_of_the_working_directory() -> None:
    """By -I, or by the program's first lines."""
    scripts = [path for room in ROOMS for path in room.rglob("*.sh")]
    calls = [(path.name, *call) for path in scripts for call in CALL.findall(path.read_text())]
    assert len(calls) > 10
    repository = ROOMS[0].parent
    of_files = {name: (repository / path).read_text() for name, path in PROGRAMS.items()}
    odd = [
        (name, options)
        for name, options, code in calls
        if "-I" not in options.split() and not is_apart(code or of_files.get(name, ""))
    ]
    assert odd == []


def is_apart(code: str) -> bool:
    """Whether only sys, which is within Python, is imported before the folder is dropped."""
    imports = re.findall(r"^(?:import|from) ([\w, ]+)", code.partition(WITHOUT)[0], re.MULTILINE)
    return imports == ["sys"]
