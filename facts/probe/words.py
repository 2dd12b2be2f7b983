"""Names that a user gives a script, of files and of hosts: each has one form before it is sent."""

import re

# A control character ends a line or a field of an answer; half of a surrogate pair has no bytes.
CONTROL = "\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
# The kernel's PATH_MAX, without its zero byte.
_LONGEST = 4095
_ONE_LINE = re.compile(f"[^{CONTROL}]*")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")
FILE_NAME = f"one line of at most {_LONGEST} bytes, without control characters"


def is_file_name(text: str) -> bool:
    """Whether a text can be the name of a file, folder or program of a node, or is empty."""
    return bool(_ONE_LINE.fullmatch(text)) and len(text.encode()) <= _LONGEST


def is_host_name(text: str) -> bool:
    """Whether a text can be the name or the IPv4 address of a host: it is never an option."""
    return bool(_HOST.fullmatch(text))
