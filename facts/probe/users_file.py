"""sh that reads a file of a user: only a regular file, with a limit for its size."""

from __future__ import annotations

from gpu_node.facts.probe.shell import shell

MOST_BYTES = 1 << 20
USERS_FILE = shell(
    "probe/users_file", too_many=MOST_BYTES + 1, most=MOST_BYTES, most_mib=MOST_BYTES >> 20
)
