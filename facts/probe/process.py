"""sh about processes, whose names and command lines are any bytes that their users choose."""

from gpu_node.facts.probe.shell import shell

# `command_line` needs $gn_hide (redaction.py).
PROCESS = shell("probe/process")
# For Section.shared, and for scripts that change a node: they begin with `eval "$gn_process"`.
SHARED = ("gn_process", PROCESS)
