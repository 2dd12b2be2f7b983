"""Scripts that send the lines that set variables, of start files and files with other rules.

Only the relevant part of each line leaves the node: the names that are searched for with their
values, and the shell's words that show whether they stay set. All other words are blanked.
"""

from __future__ import annotations

from gpu_node.facts.probe.redaction import HIDDEN
from gpu_node.facts.probe.shell import shell
from gpu_node.facts.probe.users_file import USERS_FILE

_LONGEST = 8192
LINES = shell("env/setting_lines.awk", hidden=HIDDEN, longest=_LONGEST)
SHARED = ("gn_lines", LINES)

BASHRC = USERS_FILE + shell("env/bashrc", hidden=HIDDEN)
SETTINGS = USERS_FILE + shell("env/settings")
CONF = USERS_FILE + shell("env/conf")
