"""The sh around a probe's sections: limits, coding, markers, and sudo."""

from collections.abc import Iterable
from itertools import takewhile

from gpu_node.facts.probe.lines import decoded
from gpu_node.facts.probe.shell import shell

MARK = "@@gpu-node"
# The bytes that a section, all sections with root, all sections, and lists of files beside them may
# print; more is not sent. A connection takes 16 MiB.
DEFAULT_BYTES, _MOST_BY_SUDO = 1024 * 1024, 8 * 1024 * 1024
MOST_OF_ALL_BYTES, _MOST_OF_LISTS = 4 * 1024 * 1024, 47 * 256 * 1024
# The exit code of a section that prints more: the one for a file that is too large (SIGXFSZ).
TOO_LONG = 153

PROLOGUE = shell(
    "probe/prologue",
    most=DEFAULT_BYTES,
    most_of_all=MOST_OF_ALL_BYTES,
    most_of_lists=_MOST_OF_LISTS,
    too_long=TOO_LONG,
)

BEGIN = shell("probe/begin")
END = f"""printf '\\n{MARK} done\\n'
kill "$gn_beat" 2>/dev/null
wait "$gn_beat" 2>/dev/null
:"""

BY_SUDO = shell("probe/by_sudo", most=_MOST_BY_SUDO)

# Runs a script that comes by stdin, where no limit applies to its length; see `by_stdin`.
READER = shell("probe/whole", mark=MARK)
NOT_WHOLE = f"{MARK} script is not whole"


# How the script begins that `READER` takes.
FIRST_LINE = f"# {MARK} script"


def by_stdin(script: str) -> list[str]:
    """Return the lines that `READER` takes for a script."""
    return [FIRST_LINE, script, f"# {MARK} end of script"]


def arrived_in_part(lines: Iterable[str]) -> tuple[str, str] | None:
    """Return how many bytes of a script arrived, and the first ones; None if all of it did.

    Only what is before the first section is of `READER`: a user may write its mark into a section.
    """
    before = list(takewhile(lambda line: not line.startswith(f"{MARK} begin "), lines))
    if NOT_WHOLE not in before:
        return None
    count, *rows = [*before[before.index(NOT_WHOLE) + 1 :], ""]
    try:
        return count.strip(), decoded(bytes.fromhex("".join(rows)))
    except ValueError:
        return count.strip(), ""
