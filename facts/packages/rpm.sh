"""Package sources: which repositories a server takes its packages from, and whether they answer.

Nothing of the system's is written: each repository's index goes into a folder that is removed.
"""

from __future__ import annotations

import re
from typing import Literal

from facts.area import State
from facts.libnccl import SECTIONS as NCCL
from facts.libnccl import Manager, parse_manager
from facts.probe import Readings, Section

# One file of a repository, and all of them side by side.
FETCH_SECONDS, SECONDS = 15, 60

# Who holds a lock of the package manager: /proc/locks names the processes, their links the files.
# yum and dnf write a pid into a file as well.
HELD = r"""
awk '$2 != "->" && $4 == "WRITE" && $5 > 0 { print $5 }' /proc/locks | sort -u |
while read -r pid; do
  file=$(ls -l "/proc/$pid/fd" 2>/dev/null | sed -n \
    -e 's/.* -> \(\/var\/lib\/dpkg\/lock\(-frontend\)\{0,1\}\)$/\1/p' \
    -e 's/.* -> \(\/var\/lib\/apt\/lists\/lock\)$/\1/p' \
    -e 's/.* -> \(\/var\/cache\/apt\/archives\/lock\)$/\1/p' \
    -e 's/.* -> \(\/run\/dnf\/rpmtransaction\.lock\)$/\1/p' \
    -e 's/.* -> \(\/var\/lib\/rpm\/\.rpm\.lock\)$/\1/p' \
    -e 's/.* -> \(\/usr\/lib\/sysimage\/rpm\/\.rpm\.lock\)$/\1/p' \
    -e 's/.* -> \(\/var\/lib\/rpm\/rpmdb\.sqlite\)$/\1/p' \
    -e 's/.* -> \(\/usr\/lib\/sysimage\/rpm\/rpmdb\.sqlite\)$/\1/p' | head -n 1)
  # In a container a path is another file. Each sh that we know has -ef.
  # shellcheck disable=SC3013
  [ -n "$file" ] && [ "/proc/$pid/root$file" -ef "$file" ] || continue
  printf '%s\t%s\t%s\n' "$file" "$pid" "$(cat "/proc/$pid/comm" 2>/dev/null)"
done
for file in /var/run/yum.pid /var/lib/dnf/rpmdb_lock.pid /var/cache/dnf/metadata_lock.pid \
  /var/cache/dnf/download_lock.pid; do
  pid=$(cat "$file" 2>/dev/null) && [ -n "$pid" ] && [ -d "/proc/$pid" ] || continue
  name=$(cat "/proc/$pid/comm" 2>/dev/null)
  # Of a program that was killed the file stays, and its pid may be another program's by now.
  case $name in (*yum* | *dnf* | *python* | *ackage*) ;; (*) continue ;; esac
  printf '%s\t%s\t%s\n' "$file" "$pid" "$name"
done
exit 0
"""
# apt-helper takes apt's own proxies and certificates. Old repositories have no InRelease, and one
# that is flat and trusted may have a list of its packages alone.
_APT = r"""
helper=/usr/lib/apt/apt-helper
take() {
  $limit "$helper" -o APT::Sandbox::User=root -o Acquire::Retries=0 \
    -o Acquire::http::Timeout=8 -o Acquire::https::Timeout=8 download-file "$1" "$2" 2>&1
}
one() {
  url=$1 file=$scratch/$2
  case $url in
    cdrom:*) printf 'bad\t%s\tit is a disc\n' "$url"; return ;;
    file:*) path=${url#file:}; path=/${path#"${path%%[!/]*}"}
      if [ -d "${path%/*}" ]; then printf 'ok\t%s\t\n' "$url"
      else printf 'bad\t%s\tthere is no such folder\n' "$url"; fi
      return ;;
  esac
  said=$(take "$url" "$file"); code=$?
  case $code$said in
    0*) ;;
    *404*)
      for index in Release Packages Packages.xz Packages.gz; do
        ! take "${url%InRelease}$index" "$file" >/dev/null || { code=0; break; }
      done ;;
  esac
  if [ "$code" = 0 ]; then
    printf 'ok\t%s\t\n' "$url"
  else
    said=$(printf '%s\n' "$said" | sed -n \
      -e 's/^E: Failed to fetch [^ ]* *//p; t' -e 's/^E: *//p' | head -n 1)
    printf 'bad\t%s\t%s\n' "$url" "${said:-no answer within LIMIT s}"
  fi
}
apt_sources() {
  [ -x "$helper" ] || { echo 'apt-helper is not installed'; return 1; }
  said=$(apt-get --print-uris update 2>&1) ||
    { printf '%s\n' "$said" | tail -n 1; return 1; }
  number=0
  for url in $(printf '%s\n' "$said" | sed -n "s/^'\([^' ]*Release\)'.*/\1/p" | sort -u); do
    number=$((number + 1))
    one "$url" "$number" >"$scratch/said.$number" &
  done
}
"""
# The files that yum and dnf read, their variables, and the way they go from a list to a mirror.
_RPM = r"""
major=$(sed -n 's/^VERSION_ID=//p' /etc/os-release | tr -d "\"'")
major=${major%%.*}
vars() {
  for f in /etc/yum/vars/* /etc/dnf/vars/*; do
    [ ! -f "$f" ] || printf '%s %s\n' "${f##*/}" "$(head -n 1 "$f")"
  done
  printf 'releasever %s\nbasearch %s\narch %s\n' "$major" "$(uname -m)" "$(uname -m)"
}
enabled() {
  cat /etc/yum.conf /etc/dnf/dnf.conf /etc/yum.repos.d/*.repo 2>/dev/null | awk '
    function put(  kind) {
      if (id == "" || id == "main" || said["enabled"] ~ /^(0|[Ff]alse|[Nn]o)$/) return
      kind = said["baseurl"] != "" ? "baseurl" : said["metalink"] != "" ? "metalink" : "mirrorlist"
      print id "\t" kind "\t" said[kind] "-\t" (said["proxy"] != "" ? said["proxy"] : proxy) "-\t" \
        said["sslverify"] "-\t" said["sslcacert"] "-\t" said["sslclientcert"] "-\t" \
        said["sslclientkey"] "-\t" said["username"] "-"
    }
    /^[ \t]*[#;]/ || /^[ \t]*$/ { next }
    /^\[/ { put(); split("", said); id = $0; sub(/^\[/, "", id); sub(/\].*/, "", id); next }
    /^[^ \t=]+[ \t]*=/ {
      key = $0; sub(/[ \t]*=.*/, "", key)
      value = $0; sub(/^[^=]*=[ \t]*/, "", value); sub(/[ \t,].*/, "", value)
      said[key] = value
      if (id == "main" && key == "proxy") proxy = value
      next
    }
    /^[ \t]+[^ \t]/ && said[key] == "" { value = $0; sub(/^[ \t]+/, "", value); said[key] = value }
    END { put() }'
}
take() { $limit curl -fsSL --connect-timeout 8 "$@" 2>&1; }
one() {
  id=$1 kind=$2 url=${3%-} proxy=${4%-} verify=${5%-} ca=${6%-} cert=${7%-} key=${8%-} user=${9%-}
  file=$scratch/file.${10}
  [ -z "$user" ] || { printf 'unknown\t%s\tit wants the password of %s\n' "$id" "$user"; return; }
  [ -n "$url" ] || { printf 'bad\t%s\tit names no place\n' "$id"; return; }
  set -- -o "$file"
  case $proxy in '' | _none_) ;; *) set -- "$@" --proxy "$proxy" ;; esac
  case $verify in 0 | [Ff]alse | [Nn]o) set -- "$@" -k ;; esac
  [ -z "$ca" ] || set -- "$@" --cacert "$ca"
  [ -z "$cert" ] || set -- "$@" --cert "$cert"
  [ -z "$key" ] || set -- "$@" --key "$key"
  if [ "$kind" != baseurl ]; then
    said=$(take "$@" "$url") || { missed "$id" "$kind $url: $said"; return; }
    mirror=$(sed -n -e 's/^\(https\{0,1\}:[^ <]*\).*/\1/p' \
      -e 's/.*<url [^>]*>\(https\{0,1\}:[^<]*\)<.*/\1/p' "$file" | head -n 1)
    [ -n "$mirror" ] || { missed "$id" "$kind $url: $(head -n 1 "$file")"; return; }
    url=${mirror%/repodata/repomd.xml}
  fi
  if said=$(take "$@" "${url%/}/repodata/repomd.xml"); then printf 'ok\t%s\t\n' "$id"
  else missed "$id" "$url: $said"; fi
}
missed() { printf 'bad\t%s\t%s\n' "$1" "$(printf '%s' "$2" | tr '\n\t' '  ')"; }
rpm_sources() {
  command -v curl >/dev/null 2>&1 || { echo 'curl is not installed'; return 1; }
  swap=$(vars | awk 'NF > 1 && !/[|&\\]/ {
    print "s|[$]" $1 "|" $2 "|g"; print "s|[$][{]" $1 "[}]|" $2 "|g" }')
  enabled | sed "$swap" >"$scratch/repositories"
  number=0
  while IFS=$tab read -r id kind url proxy verify ca cert key user; do
    number=$((number + 1))
    one "$id" "$kind" "$url" "$proxy" "$verify" "$ca" "$cert" "$key" "$user" "$number" \
      >"$scratch/said.$number" &
  done <"$scratch/repositories"
}
"""
_SOURCES = r"""
tab=$(printf '\t')
limit=
! timeout --version >/dev/null 2>&1 || limit='timeout -s KILL LIMIT'
scratch=$(mktemp -d) || exit 1
ASK_FAMILY; code=$?
wait
cat "$scratch"/said.* 2>/dev/null
rm -rf "$scratch"
exit "$code"
"""


def _asking(family: str, text: str) -> str:
    whole = f"{text}{_SOURCES.replace('ASK_FAMILY', family)}"
    return whole.replace("LIMIT", str(FETCH_SECONDS))


_BY_MANAGER = f"""
ask_apt() {{
{_asking("apt_sources", _APT)}
}}
ask_rpm() {{
{_asking("rpm_sources", _RPM)}
}}
if [ -s /var/lib/dpkg/status ] && command -v apt-get >/dev/null 2>&1; then ask_apt
else ask_rpm
fi
"""

_MANAGER = next(each for each in NCCL if each.name == "nccl.manager")
SECTIONS = (
    _MANAGER,
    Section("preflight.held", HELD),
    Section("preflight.sources", _BY_MANAGER, seconds=SECONDS),
)


class Held(State):
    """A lock of the package manager that a process holds."""

    file: str
    pid: int
    command: str


class PackageSource(State):
    """A repository, by its address (apt) or id (yum, dnf), whether it answers, and why not."""

    name: str
    state: Literal["ok", "bad", "unknown"]
    why: str


# What a person wrote into an address to be let in with.
_SECRET = re.compile(r"//[^/@\s]+@")


def parse_held(text: str) -> tuple[Held, ...]:
    """Parse a file, a pid and a command a line; tabs part them."""
    rows = [line.split("\t") for line in text.splitlines()]
    return tuple(Held(file=file, pid=int(pid), command=name) for file, pid, name in rows)


def parse_sources(text: str) -> tuple[PackageSource, ...]:
    """Parse `ok|bad|unknown`, a name and a reason a line; tabs part them.

    A password in an address is left out.
    """
    rows = [_SECRET.sub("//", line).split("\t", 2) for line in text.splitlines()]
    found = [{"state": state, "name": name, "why": why} for state, name, why in rows]
    return tuple(PackageSource.model_validate(each) for each in found)


class Packages(State):
    """What installs packages, who keeps it from doing so, and where they come from."""

    manager: Manager | None
    held: tuple[Held, ...] | None
    sources: tuple[PackageSource, ...] | None


def parse(readings: Readings) -> Packages:
    """Return what the sections about packages said."""
    return Packages(
        manager=readings.take("nccl.manager", parse_manager),
        held=readings.take("preflight.held", parse_held),
        sources=readings.take("preflight.sources", parse_sources),
    )
