"""Processes that pass on their environment: terminals, servers of screen and tmux, trainers."""

import re
from typing import Literal

from gpu_node.facts.env.start_files import ENV_FILE
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.redaction import HIDDEN
from gpu_node.facts.probe.shell import shell

PROCESSES = shell("env/processes", env_file=ENV_FILE, hidden=HIDDEN)


class Process(State):
    """A process that passes on its environment; None if that may not be read.

    `older`: it started before ~/.bashrc was last written.
    """

    pid: int
    kind: Literal["shell", "server", "trainer"]
    command: str
    older: bool
    environment: dict[str, str] | None


def parse_processes(text: str) -> tuple[Process, ...]:
    """Parse ~/.bashrc's time, then `PID BEGAN KIND COMMAND open|closed`, then tabbed variables."""
    first, *rows = text.split("\n")
    written = int(first)
    processes: list[tuple[list[str], dict[str, str]]] = []
    for row in filter(None, rows):
        if row.startswith("\t"):
            name, _, value = row[1:].partition("=")
            processes[-1][1][name] = value
        else:
            processes.append((row.split(), {}))
    return tuple(_process(words, variables, written) for words, variables in processes)


def _process(words: list[str], variables: dict[str, str], written: int) -> Process:
    pid, began, kind, command, access = words
    return Process.model_validate(
        {"pid": int(pid), "kind": kind, "command": re.sub("_", " ", command)}
        | {"older": int(began) < written, "environment": variables if access == "open" else None}
    )
