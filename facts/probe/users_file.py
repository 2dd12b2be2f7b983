"""sh that reads a user's file: only a regular file, up to a size limit."""

from gpu_node.facts.probe.shell import shell

MOST_BYTES = 1 << 20
USERS_FILE = shell("probe/users_file", most=MOST_BYTES, most_mib=MOST_BYTES >> 20)
