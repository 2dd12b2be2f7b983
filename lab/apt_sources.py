"""Finds the apt sources of this machine that belong to its distribution."""

import re
from collections.abc import Iterable
from pathlib import Path

from gpu_node.lab.errors import LabError
from gpu_node.lab.machine import run

KEYRINGS = ("debian-archive", "ubuntu-archive")
ONE_LINE = re.compile(
    r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)\s+main\b"
)
CARRIED = (
    "Acquire::http::Proxy",
    "Acquire::https::Proxy",
    "Acquire::Check-Valid-Until",
    "Acquire::Check-Date",
)


def codename(os_release: str) -> str:
    """The suite this machine runs, as bookworm or noble."""
    for line in os_release.splitlines():
        key, _, value = line.partition("=")
        if key == "VERSION_CODENAME" and value.strip("\"'"):
            return value.strip("\"'")
    raise LabError("/etc/os-release names no VERSION_CODENAME; the lab needs Debian or Ubuntu")


def of_this_machine(suite: str, etc: Path = Path("/etc/apt")) -> list[str]:
    """The distribution's own entries for the suite, each a complete source in its own format."""
    lists = [etc / "sources.list", *sorted(etc.glob("sources.list.d/*.list"))]
    found = one_line(suite, read(lists)) + deb822(suite, read(etc.glob("sources.list.d/*.sources")))
    if not found:
        raise LabError(
            f"{etc} has no source of {suite} main; the lab builds its tree from such sources"
        )
    return found


def one_line(suite: str, texts: Iterable[str]) -> list[str]:
    """`deb` lines of the suite and its updates that no foreign key signs."""
    found = []
    for line in "\n".join(texts).splitlines():
        match = ONE_LINE.match(line)
        if match and wanted(suite, match["suite"].split("/")[0], match["options"] or ""):
            found.append(line)
    return ["\n".join(found)] if found else []


def deb822(suite: str, texts: Iterable[str]) -> list[str]:
    """Stanzas of the suite and its updates that no foreign key signs, their comments left out."""
    found = []
    for stanza in re.split(r"\n[ \t]*\n", "\n\n".join(texts)):
        lines = [line for line in stanza.splitlines() if line and not line.startswith("#")]
        pairs = (line.partition(":") for line in lines if not line.startswith((" ", "\t")))
        fields = {key.lower(): value.strip() for key, _, value in pairs}
        if fields.get("enabled", "yes").lower() == "no" or "main" not in words(
            fields, "components"
        ):
            continue
        suites, signed = words(fields, "suites"), fields.get("signed-by", "")
        signature = f"signed-by={signed}" if "signed-by" in fields else ""
        if "deb" in words(fields, "types") and suites and wanted(suite, suites[0], signature):
            found.append("\n".join(lines))
    return found


def words(fields: dict[str, str], key: str) -> list[str]:
    """A field's words."""
    return fields.get(key, "").split()


def wanted(suite: str, offered: str, options: str) -> bool:
    """Whether a source is of this suite and signed as the distribution signs."""
    if offered != suite and not re.match(rf"{suite}-(updates|security)$", offered):
        return False
    return "signed-by" not in options.lower() or any(name in options for name in KEYRINGS)


def read(paths: Iterable[Path]) -> list[str]:
    """The texts of the files that are there."""
    return [path.read_text() for path in sorted(paths) if path.is_file()]


def options() -> list[str]:
    """The apt options of this machine without which its sources may not be reached."""
    lines = run(["apt-config", "dump"]).stdout.splitlines()
    return [line for line in lines if line.split(" ")[0] in CARRIED]
