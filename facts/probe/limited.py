"""sh that runs a program with a time limit, without the shell's own messages in its output."""

from gpu_node.facts.probe.shell import shell

LIMITED = shell("probe/limited")
