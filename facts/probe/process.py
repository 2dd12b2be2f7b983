"""sh about processes, whose names and command lines are any bytes that their users choose."""

from __future__ import annotations

from gpu_node.facts.probe.shell import shell

# Needs $gn_hide (redaction.py) for `command_line`. Of light sections none needs it.
PROCESS = shell("probe/process")
# For Section.shared, and for the scripts that change a node: a command begins with `eval "$gn_process"`.
SHARED = ("gn_process", PROCESS)
