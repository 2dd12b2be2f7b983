"""sh that runs a program as its owner, because root runs nothing that others can change."""

from pathlib import Path

from gpu_node.facts.probe.shell import shell

# deploy/ also puts this file in front of its scripts.
WRITERS_FILE = Path(__file__).with_name("writers.sh")
OWNER = shell("probe/writers") + shell("probe/owner")
# The options of find that list the files which others than root may change.
_ODD = r"\( ! -user 0 -o ! -type l \( -perm -020 -o -perm -002 \) \) -exec ls -ldn {} +"
ENVIRONMENT_OWNER = shell("probe/environment_owner", odd=_ODD)
# For Section.shared: a command begins with `eval "$gn_owner"`.
SHARED = ("gn_owner", OWNER)
