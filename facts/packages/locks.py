"""Package locks: the lines of a node that hold packages back, and the note of those we wrote."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from facts.area import State
from facts.probe import Section, Unreadable

# What the deploy holds, a line a package: NAME VERSION RUN.
NOTE = "/var/lib/gpu-node/holds"
# Only the deploy writes these two.
_REPOSITORIES = (
    "/etc/yum.repos.d/gpu-node-cuda.repo",
    "/etc/apt/sources.list.d/gpu-node-cuda.sources",
)
# versionlock's list is where yum, or dnf, or dnf5 looks for it (the last in a form of its own), and
# holds nothing where the plugin is turned off. apt reads a file of preferences.d only without an
# extension, or with .pref. One awk reads all: each process of the probe costs time.
_FILES = rf"""
if [ -d /etc/dnf ]; then
  list=/etc/dnf/plugins/versionlock.list conf=/etc/dnf/plugins/versionlock.conf
else
  list=/etc/yum/pluginconf.d/versionlock.list conf=/etc/yum/pluginconf.d/versionlock.conf
fi
on=yes
if [ -r "$conf" ]; then
  while IFS= read -r line || [ -n "$line" ]; do
    value=${{line#*=}}
    value=${{value#"${{value%%[! ]*}}"}}
    case $line in
      enabled*=*) case $value in 0* | [Ff]alse* | [Nn]o* | [Oo]ff*) on=no ;; *) on=yes ;; esac ;;
      locklist*=*) list=$value ;;
    esac
  done <"$conf"
fi
set --
if [ "$on" = yes ]; then
  [ ! -e "$list" ] || set -- "$@" kind=versionlock "$list"
  f=/etc/dnf/versionlock.toml
  [ ! -e "$f" ] || set -- "$@" kind=toml "$f"
fi
# /etc/yum.conf is a link to dnf's where there is one.
yum=/etc/yum.conf
[ ! -L "$yum" ] || [ ! -e /etc/dnf/dnf.conf ] || yum=
for f in $yum /etc/dnf/dnf.conf /etc/yum.repos.d/*.repo; do
  [ ! -f "$f" ] || set -- "$@" kind=exclude "$f"
done
for f in /etc/apt/preferences /etc/apt/preferences.d/*; do
  case ${{f##*/}} in *.pref) ;; *.*) continue ;; esac
  [ ! -f "$f" ] || set -- "$@" kind=pin "$f"
done
[ ! -e {NOTE} ] || set -- "$@" kind=note {NOTE}
for f in {" ".join(_REPOSITORIES)}; do
  [ ! -e "$f" ] || echo repository
done
"""
# Tabs part what is printed; a byte that is not ASCII becomes a question mark.
_READ = r"""
[ $# -eq 0 ] || awk '
  function flush() {
    if (package != "" && pin != "")
      print "pin\t" file "\t" line "\t" package "\t" pin "\t" priority "\t" comment "\t" named()
    package = pin = priority = comment = ""
  }
  # A regular expression is tried here, on the names that matter, and nowhere else.
  function named(  count, each, i, pattern, names) {
    count = split(package, each, " ")
    for (i = 1; i <= count; i++) {
      pattern = each[i]
      if (pattern !~ /^\/.+\/$/) { names = names " " pattern; continue }
      pattern = substr(pattern, 2, length(pattern) - 2)
      if ("libnccl2" ~ pattern) names = names " libnccl2"
      if ("libnccl-dev" ~ pattern) names = names " libnccl-dev"
    }
    return names
  }
  function value(text) { sub(/^[^:=]*[:=][ ]*/, "", text); return text }
  FNR == 1 { flush(); section = "main"; comment = name = ""; open = 0 }
  { sub(/\r$/, ""); gsub(/\t/, " "); gsub(/[^ -~]/, "?") }
  kind == "note" && NF == 3 { print "note\t" $1 "\t" $2 "\t" $3 }
  kind == "versionlock" && /^ *#/ { comment = $0; next }
  kind == "versionlock" && /^ *$/ { comment = ""; next }
  kind == "versionlock" && (/nccl/ || /^ *!?([0-9]+:)?[^-]*[*?[]/) {
    print "versionlock\t" FILENAME "\t" FNR "\t" $0 "\t" comment
  }
  kind == "toml" && /^ *\[\[packages\]\]/ { name = comment = "" }
  kind == "toml" && /^ *(name|comment|value) *=/ {
    text = value($0); gsub(/^"|" *$/, "", text)
    if (/^ *name/) name = text
    if (/^ *comment/) comment = text
    if (/^ *value/ && name ~ /nccl|[*?[]/)
      print "versionlock\t" FILENAME "\t" FNR "\t" name "-0:" text ".*\t" comment
  }
  kind == "exclude" && /^ *([#;]|$)/ { next }
  kind == "exclude" && /^\[/ { section = $0; sub(/^\[/, "", section); sub(/\].*/, "", section) }
  kind == "exclude" && /^(exclude|excludepkgs) *=/ {
    open = 1
    if (value($0) != "") print "exclude\t" FILENAME "\t" FNR "\t" section "\t" value($0)
    next
  }
  kind == "exclude" && open && /^ / {
    print "exclude\t" FILENAME "\t" FNR "\t" section "\t" $0
    next
  }
  kind == "exclude" { open = 0 }
  kind == "pin" && /^ *$/ { flush() }
  kind == "pin" && tolower($1) == "package:" { package = value($0); file = FILENAME; line = FNR }
  kind == "pin" && tolower($1) == "pin:" { pin = value($0) }
  kind == "pin" && tolower($1) == "pin-priority:" { priority = value($0) }
  kind == "pin" && tolower($1) == "explanation:" { comment = value($0) }
  END { flush() }' "$@" || exit 1
"""

# A repository's file that has a password is for root alone.
SECTION = Section("nccl.locks", _FILES + _READ, root=True)


# [EPOCH:]NAME-[EPOCH:]VERSION[-RELEASE]; a version begins with a digit or a pattern.
_ENTRY = re.compile(r"(?:\d+:)?(?P<name>.+?)-(?:\d+:)?(?P<version>[\d*?\[].*)")


class LockLine(State):
    """A line that holds packages back; `names` are patterns of packages.

    `version` is versionlock's pattern of the version that is allowed, or what a pin of apt is about
    ("version 2.18.*"). `denies` is set where the line keeps that version out instead. `scope` is
    the repository of an exclude= ("main": of all). `priority` is a pin's. `comment` is the line's
    own, as people write it; tools' lines have an empty one.
    """

    kind: Literal["versionlock", "exclude", "pin"]
    file: str
    line: int
    text: str
    names: tuple[str, ...]
    version: str
    denies: bool = False
    scope: str = "main"
    priority: int | None = None
    comment: str


class Hold(State):
    """A hold that a run of ours wrote: package, version and the run's name."""

    package: str
    version: str
    run: str


class Locks(State):
    """What holds packages back: lines, our own note, and whether our repository's file exists."""

    lines: tuple[LockLine, ...]
    holds: tuple[Hold, ...]
    has_repository: bool


def parse(text: str) -> Locks:
    """Parse a row a line: its kind first, and tabs between."""
    rows = [line.split("\t") for line in text.splitlines() if line]
    known: dict[str, Callable[..., LockLine]] = {
        "versionlock": _versionlock,
        "exclude": _exclude,
        "pin": _pin,
    }
    lines = [known[row[0]](*row[1:]) for row in rows if row[0] in known]
    holds = [Hold(package=row[1], version=row[2], run=row[3]) for row in rows if row[0] == "note"]
    strange = {row[0] for row in rows} - {*known, "note", "repository"}
    if strange:
        raise Unreadable(f"not understood: {sorted(strange)}")
    return Locks(lines=tuple(lines), holds=tuple(holds), has_repository=["repository"] in rows)


def name_and_version(text: str) -> tuple[str, str]:
    """Return both of dnf's libnccl-0:2.18.1-1.* and of yum's 0:libnccl-2.18.1-1.*, less the epoch.

    The version is without the `.*` at its end; a name alone has none.
    """
    found = _ENTRY.fullmatch(text)
    return (found["name"], found["version"].removesuffix(".*")) if found else (text, "")


def _versionlock(file: str, line: str, text: str, comment: str) -> LockLine:
    entry = text.strip()
    name, version = name_and_version(entry.removeprefix("!"))
    return LockLine(
        kind="versionlock",
        file=file,
        line=int(line),
        text=entry,
        names=(name,),
        version=version,
        denies=entry.startswith("!"),
        comment=_of_people(comment),
    )


def _of_people(comment: str) -> str:
    """Return a comment without its sign; dnf's own ("Added lock on ...") is left out."""
    text = comment.strip().lstrip("#").strip()
    return "" if text.startswith(("Added lock", "Added exclude")) else text


def _exclude(file: str, line: str, scope: str, patterns: str) -> LockLine:
    return LockLine(
        kind="exclude",
        file=file,
        line=int(line),
        text=f"exclude={patterns.strip()}",
        names=tuple(patterns.replace(",", " ").split()),
        version="",
        denies=True,
        scope=scope,
        comment="",
    )


def _pin(
    file: str, line: str, packages: str, pin: str, priority: str, comment: str, names: str
) -> LockLine:
    return LockLine(
        kind="pin",
        file=file,
        line=int(line),
        text=f"Package: {packages}, Pin: {pin}, Pin-Priority: {priority}",
        names=tuple(names.split()),
        version=pin,
        priority=int(priority) if priority.lstrip("-").isdigit() else None,
        comment=comment.strip(),
    )
