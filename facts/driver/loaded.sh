"""Loaded: the nvidia module in the kernel, what keeps it out, and the driver's libraries."""

from __future__ import annotations

import re

from facts.area import State
from facts.kernels import SBIN, SECONDS
from facts.probe import Readings, Section, Unreadable

# The open module says so in the version that it shows. `modprobe -c` has what is in force, with the
# kernel's command line, and names no file: the files are read to find the line. busybox's modprobe
# has no -c: there each file counts. Debian calls the module nvidia-current.
_LOADED = (
    SBIN
    + r"""
[ -d /sys/module ] || { echo '/sys is not mounted'; exit 1; }
printf 'nvidia %s\n' "$(cat /sys/module/nvidia/version 2>/dev/null)"
[ ! -d /sys/module/nouveau ] || echo nouveau
! grep -qs 'Open Kernel Module' /proc/driver/nvidia/version || echo open
# What turns persistence mode on at a boot; without systemd there is no unit to look for.
if command -v systemctl >/dev/null 2>&1; then
  turns_on='nvidia-smi.*(-pm|persistence-mode)[ =]*(1|ENABLED)'
  in_force() { grep -Ehs "$@" | grep -v -e --no-persistence-mode | grep -q .; }
  # The daemon's command is its unit's, or that of the last file that changes it: Ubuntu's unit
  # starts it with persistence mode off.
  daemon=
  for f in /lib/systemd/system/nvidia-persistenced.service \
    /usr/lib/systemd/system/nvidia-persistenced.service \
    /etc/systemd/system/nvidia-persistenced.service \
    /etc/systemd/system/nvidia-persistenced.service.d/*.conf; do
    command=$(sed -n 's/^ExecStart=\(.\)/\1/p' "$f" 2>/dev/null | tail -n 1)
    daemon=${command:-$daemon}
  done
  case $daemon in *--no-persistence-mode*) daemon= ;; esac
  # The unit is started by another one that wants it, or by udev.
  set -- /etc/systemd/system/*.wants/nvidia-persistenced.service \
    /usr/lib/systemd/system/*.wants/nvidia-persistenced.service \
    /lib/systemd/system/*.wants/nvidia-persistenced.service
  started=
  for f; do [ ! -e "$f" ] || started=yes; done
  set -- /etc/udev/rules.d/*.rules /usr/lib/udev/rules.d/*.rules /lib/udev/rules.d/*.rules
  ! grep -Eqs '^[^#]*nvidia-persistenced' "$@" || started=yes
  if [ -n "$started" ] && [ -n "$daemon" ] ||
    in_force "^Exec[A-Za-z]*=.*$turns_on" /etc/systemd/system/*.wants/*.service \
      /usr/lib/systemd/system/*.wants/*.service /lib/systemd/system/*.wants/*.service ||
    in_force "^[^#]*$turns_on" "$@" ||
    in_force "^[^#]*(nvidia-persistenced|$turns_on)" /etc/rc.local /etc/rc.d/rc.local \
      /etc/rc[235].d/S* /etc/crontab /etc/cron.d/* /var/spool/cron/root \
      /var/spool/cron/crontabs/root
  then
    echo 'persistence kept'
  else
    echo 'persistence lost'
  fi
fi
set --
for f in /proc/cmdline /etc/modprobe.conf /etc/modprobe.d/*.conf /run/modprobe.d/*.conf \
  /usr/local/lib/modprobe.d/*.conf /usr/lib/modprobe.d/*.conf /lib/modprobe.d/*.conf; do
  [ ! -r "$f" ] || set -- "$@" "$f"
done
modprobe -c 2>/dev/null | sed '/^# End of configuration/q' | awk '
  function named(name) {
    gsub(/-/, "_", name)
    return name ~ /^nvidia(_current)?(_open)?$/ ? name : ""
  }
  function note(text) {
    order[++count] = text
    if (is_config) in_force[text] = 1
    else if (!(text in places)) places[text] = FILENAME
  }
  FILENAME == "/proc/cmdline" {
    for (i = 1; i <= NF; i++) {
      if ($i !~ /^(modprobe\.blacklist|module_blacklist)=/) continue
      value = $i
      sub(/^[^=]*=/, "", value)
      parts = split(value, names, ",")
      for (j = 1; j <= parts; j++) if (named(names[j]) != "") {
        if ($i ~ /^modprobe/) by_line["blacklist " named(names[j])] = 1
        print "barred\t" FILENAME "\t" $i
      }
    }
    next
  }
  is_config { has_config = 1 }
  (name = named($2)) == "" { next }
  $1 == "blacklist" { note("blacklist " name) }
  $1 == "alias" && $3 == "off" { note("alias " name " off") }
  $1 == "install" && $3 ~ /^((\/usr)?\/bin\/)?(true|false|:)$/ && (NF == 3 || $4 ~ /^#/) {
    note("install " name " " $3)
  }
  END {
    for (i = 1; i <= count; i++) {
      text = order[i]
      if (shown[text]++ || (has_config && !(text in in_force))) continue
      if (!(text in places) && (text in by_line)) continue
      print "barred\t" (text in places ? places[text] : "modprobe -c") "\t" text
    }
  }' is_config=1 - is_config=0 "$@"
"""
)
# A library's file name ends in the driver's version. libcuda may be another driver's: cuda-compat
# brings one, and LD_LIBRARY_PATH comes before the loader's cache.
_LIBRARY = r"""
ldconfig=$(command -v ldconfig || echo /sbin/ldconfig)
cache=$("$ldconfig" -p) || exit 1
path=$(echo "$cache" |
  sed -n 's/^[[:space:]]*libnvidia-ml\.so\.1 (libc6,[^)]*) => //p' | head -n 1)
[ -z "$path" ] || readlink -f "$path"
cuda=
set -f; IFS=:
for folder in ${LD_LIBRARY_PATH:-}; do
  [ -z "$folder" ] || [ ! -f "$folder/libcuda.so.1" ] || { cuda=$folder/libcuda.so.1; break; }
done
[ -n "$cuda" ] || cuda=$(echo "$cache" |
  sed -n 's/^[[:space:]]*libcuda\.so\.1 (libc6,[^)]*) => //p' | head -n 1)
[ -z "$cuda" ] || printf 'cuda %s\n' "$(readlink -f "$cuda")"
"""

SECTIONS = (
    Section("driver.loaded", _LOADED, seconds=SECONDS),
    Section("driver.library", _LIBRARY),
)


class Bar(State):
    """A line that keeps nvidia from being loaded: its file (or /proc/cmdline) and its text.

    The text is `blacklist nvidia`, `install nvidia /bin/false`, `alias nvidia off`, or the word of
    the command line, as `modprobe.blacklist=nvidia`.
    """

    place: str
    text: str


class Loaded(State):
    """The version of the loaded nvidia module ("": none), whether it is the open one, nouveau.

    `bars` are the lines in force that keep nvidia out. `keeps_persistence` is whether anything
    turns persistence mode on at a boot (None: there is no systemd to look for a unit in).
    """

    nvidia: str
    is_open: bool
    nouveau: bool
    bars: tuple[Bar, ...] = ()
    keeps_persistence: bool | None = None


class Cuda(State):
    """The libcuda that a program would load ("": none), and the driver's version in its name.

    The version is empty where the name has none, as of the stub in CUDA's toolkit.
    """

    path: str
    version: str


def parse_loaded(text: str) -> Loaded:
    """Parse the module's version, a word for nouveau and the open module, and `barred` lines."""
    first, *rest = text.splitlines()
    rows = [line.split("\t") for line in rest if line.startswith("barred\t")]
    kept = {"persistence kept": True, "persistence lost": False}
    return Loaded(
        nvidia=first.removeprefix("nvidia").strip(),
        is_open="open" in rest,
        nouveau="nouveau" in rest,
        bars=tuple(Bar(place=place, text=text) for _, place, text in rows),
        keeps_persistence=next((kept[line] for line in rest if line in kept), None),
    )


def parse_libraries(text: str) -> tuple[str, Cuda]:
    """Parse the path of libnvidia-ml, then `cuda PATH`; a line is absent where there is none.

    The name of libnvidia-ml ends in the version, which is returned ("": no library).
    """
    lines = text.splitlines()
    paths = [line.removeprefix("cuda ") for line in lines if line.startswith("cuda ")]
    library = next((line.strip() for line in lines if not line.startswith("cuda ")), "")
    if library and not _version(library):
        raise Unreadable(f"a library without a version: {library}")
    cuda = paths[0].strip() if paths else ""
    return _version(library), Cuda(path=cuda, version=_version(cuda))


def _version(path: str) -> str:
    """Return 535.154.05 of /usr/lib64/libcuda.so.535.154.05; empty where the name has none."""
    version = path.rpartition("/")[2].partition(".so.")[2]
    return version if re.fullmatch(r"\d+(\.\d+)+", version) else ""


def parse(readings: Readings) -> dict[str, object]:
    """Return the values of the area's fields that are about what is loaded."""
    library, cuda = readings.take("driver.library", parse_libraries) or (None, None)
    return {
        "loaded": readings.take("driver.loaded", parse_loaded),
        "library": library,
        "cuda": cuda,
    }
