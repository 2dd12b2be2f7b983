"""Scripts that send the lines which set variables: of start files, and of files with own rules.

Of each line only what matters leaves the node: the names that are looked for with their values, and
the words of a shell that tell whether they are set for good. All other words are blanked.
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
