"""The sh around a probe's sections: limits, coding, markers, and sudo."""

from __future__ import annotations

from gpu_node.facts.probe.shell import shell

MARK = "@@gpu-node"
# The bytes that a section, and all sections with root together, may print; more is not sent.
DEFAULT_BYTES, _MOST_OF_ALL = 1024 * 1024, 8 * 1024 * 1024
# The exit code of a section that prints more: the one for a file that is too large (SIGXFSZ).
TOO_LONG = 153

PROLOGUE = shell("probe/prologue", most=str(DEFAULT_BYTES), too_long=str(TOO_LONG))

BEGIN = shell("probe/begin")
END = f"""printf '\\n{MARK} done\\n'
kill "$gn_beat" 2>/dev/null
wait "$gn_beat" 2>/dev/null
:"""

BY_SUDO = shell("probe/by_sudo", most=str(_MOST_OF_ALL))

# Runs a script that comes by stdin, where no limit applies to its length; see `by_stdin`.
READER = shell("probe/whole", mark=MARK)
NOT_WHOLE = f"{MARK} script is not whole"


def by_stdin(script: str) -> list[str]:
    """Return the lines that `READER` takes for a script."""
    return [f"# {MARK} script", script, f"# {MARK} end of script"]
