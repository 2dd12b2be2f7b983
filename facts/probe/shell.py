"""The scripts that run on nodes: `.sh` files beside the modules that send them."""

import re
import shlex
from functools import cache
from pathlib import Path

_FACTS = Path(__file__).parents[1]
# A user who is not root may have no sbin in PATH; a program there would seem to be missing.
SBIN = "PATH=$PATH:/usr/sbin:/sbin; export PATH\n"
_WORD = re.compile(r"@([a-z_]+)@")


@cache
def shell(name: str, **words: object) -> str:
    """Return facts/NAME.sh in the form sent to a node: `shell("driver/kernels")`; .awk with suffix.

    Each `@word@` in a file is replaced by its value in `words`: a constant, such as a path or a
    limit, that Python code uses too. A value that differs between requests is a variable of sh: see
    `assigned`. Raises ValueError if the words in the file are not those in `words`.
    """
    path = _FACTS / (name if name.endswith(".awk") else f"{name}.sh")
    text = compact(path.read_text(encoding="utf-8"))
    if {*_WORD.findall(text)} != words.keys():
        raise ValueError(f"{path.name} has other words than {sorted(words)}")
    return _WORD.sub(lambda match: str(words[match[1]]), text)


def assigned(**values: object) -> str:
    """Return lines that set variables of sh, NAME='value', for the beginning of a script."""
    return "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in values.items())


def compact(script: str) -> str:
    """Return a script without comments, indents and empty lines.

    Linux limits an argument, such as the command of a section, to 128 KiB.
    """
    lines = (line.strip() for line in script.split("\n"))
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("#"))


# Runs a program with a time limit, without the shell's own messages in its output.
LIMITED = shell("probe/limited")
# Reads a user's file: only a regular file, up to this size.
MOST_OF_USERS_FILE = 1 << 20
USERS_FILE = shell("probe/users_file", most=MOST_OF_USERS_FILE, most_mib=MOST_OF_USERS_FILE >> 20)
