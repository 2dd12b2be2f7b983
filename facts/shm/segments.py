"""Segments: what lies in /dev/shm for NCCL, torch and OpenMP, who has it open, and orphans of it.

A file is in use where a process has it open or mapped, told by device and inode as well as by name:
a process in another mount namespace sees it at another path, and a deleted file of the same name is
another file. The name of an OpenMP or torch file has the pid of the process that made it. The file
is in use while that process lives: OpenMP closes its file at once, and with PyTorch's file_system
sharing a tensor that waits in a queue is mapped by no process.
"""

from __future__ import annotations

from facts.area import State
from facts.probe import Section, Unreadable

# Ticks a second of the start times in /proc/PID/stat, on every Linux there is (proc(5)).
_TICKS = 100

# Functions alone: the script that removes segments asks with the same words again. Names with
# blanks or quotes are nobody's that these programs made, and are left out. Of POSIX semaphores only
# those of Python's multiprocessing are listed; others may have no process between two uses.
LOOK = r"""
LC_ALL=C; export LC_ALL
place=${place:-/dev/shm}
# Where a process goes whose parent ended; any other parent is there still, and looks after it.
reapers='^(systemd|init|tini|dumb-init|docker-init|podman-init|catatonit)$'
segments() {
  find "$place/" -maxdepth 1 -type f \( -name 'nccl-*' -o -name 'sem.mp-*' \
    -o -name 'torch_[0-9]*_*' -o -name '__KMP_REGISTERED_LIB_*' \) \
    ! -name '*[!-A-Za-z0-9._+:=@%,~]*' \
    -exec stat -c 'S %i %Y %s %a %u %n %U' {} +
}
# As /proc/PID/maps writes a device, from the number that stat(1) gives.
device() {
  number=$(stat -L -c %d "$place/") || return 1
  printf '%02x:%02x\n' $((number >> 8 & 0xfff)) $((number & 0xff | number >> 12 & 0xfff00))
}
# Which pid a container knows a process by is told from Linux 4.1 on only.
has_unknown_pids() {
  ! grep -qs '^NSpid:' /proc/self/status || return 1
  [ "$(ls -ln /proc/[0-9]*/ns/pid 2>/dev/null | sed -n 's/.* -> //p' | sort -u | wc -l)" -gt 1 ]
}
held() {
  grep -HF -e " $dev " -e /nccl- -e /sem.mp- -e /torch_ -e /__KMP_ /proc/[0-9]*/maps
  grep -H -e '^NSpid:' -e '^Pid:' /proc/[0-9]*/status
  ls -ln /proc/[0-9]*/fd
}
joined='
function base(path) { sub(/.*\//, "", path); return path }
# PyTorch writes torch_PID_RANDOM or torch_PID_RANDOM_COUNT, OpenMP __KMP_REGISTERED_LIB_PID_UID.
function maker(name) {
  if (name !~ /^torch_[0-9]+_[0-9_]+$/ && name !~ /^__KMP_REGISTERED_LIB_[0-9]+(_|$)/) return ""
  sub(/^[^0-9]+/, "", name); sub(/_.*/, "", name)
  return name
}
function hold(name) { used[name]; if (!((pid, name) in has)) { has[pid, name]; holds[pid]++ } }
function look(pid,   file, line, part) {
  file = "/proc/" pid "/stat"
  if ((getline line < file) <= 0) return 0
  close(file)
  comm = line; sub(/^[0-9]+ \(/, "", comm); sub(/\) [A-Za-z] [0-9].*/, "", comm)
  sub(/.*\) /, "", line); split(line, part, " ")
  parent = part[2]; tty = part[5]; start = part[20]
  return 1
}
$1 == "S" && NF > 7 {
  name = base($7)
  if (name ~ /^(torch|__KMP)_/ && maker(name) == "") next
  of[$2] = name; bytes[name] = $4; owner = $8
  for (i = 9; i <= NF; i++) owner = owner " " $i
  told[name] = $2 " " $3 " " $4 " " $5 " " $6 " " name " " owner
  next
}
/^\/proc\/[0-9]+\/maps:/ {
  split($1, part, "/"); pid = part[3]
  if ($4 == dev && ($5 in of)) hold(of[$5])
  else if (base($NF) in told) hold(base($NF))
  next
}
/^\/proc\/[0-9]+\/status:/ { for (i = 2; i <= NF; i++) alive[$i]; next }
/^\/proc\/[0-9]+\/fd:$/ { split($1, part, "/"); pid = part[3]; next }
/ -> \/dev\/nvidia[0-9]+$/ { if (!((pid, $NF) in has)) { has[pid, $NF]; gpus[pid]++ }; next }
/ -> / { if (base($NF) in told) hold(base($NF)) }
END {
  for (name in told) {
    pid = maker(name)
    if (pid != "" && (unknown == "yes" || (pid in alive))) used[name]
    if (name in used) { count++; sum += bytes[name] } else print "segment", told[name]
  }
  printf "used %d %.0f\n", count, sum
  for (pid in gpus) holds[pid] += 0
  for (pid in holds) {
    if (!look(pid)) continue
    mine = pid " " start " " tty " " holds[pid] " " gpus[pid] + 0
    if (look(above = parent) && (above == 1 || comm ~ reapers)) print "adopted", mine, above, comm
  }
  print "seen"
}'
# Ourselves, and who called us: the session that this comes by uses none of it.
callers() {
  above=$$
  while [ "${above:-0}" -gt 0 ]; do
    printf ' %s ' "$above"
    above=$(sed 's/.*) //' "/proc/$above/stat" 2>/dev/null | cut -d ' ' -f 2)
  done
}
# What could not be looked into: by the user ids that the process has, and its name.
unseen='
/No such (file|process)/ { next }
match($0, /\/proc\/[0-9]+\//) {
  pid = substr($0, RSTART + 6, RLENGTH - 7)
  if (pid in asked || index(callers, " " pid " ")) next
  asked[pid]; file = "/proc/" pid "/status"; name = ids = ""
  while ((getline line < file) > 0) {
    if (line ~ /^Name:/) name = substr(line, 7)
    if (line ~ /^Uid:/) { split(line, part); for (i = 2; i < 5; i++) ids = ids " " part[i] }
  }
  close(file)
  if (ids != "") print "unseen" ids, name
}'
use() {
  [ -r "$place/" ] && [ -x "$place/" ] || { echo "$place cannot be listed"; return 1; }
  dev=$(device) || return 1
  unknown=no; ! has_unknown_pids || unknown=yes
  exec 3>&1
  errors=$({ { segments; held; } |
    awk -v dev="$dev" -v unknown="$unknown" -v reapers="$reapers" "$joined" >&3; } 2>&1)
  exec 3>&-
  printf '%s\n' "$errors" | awk -v callers="$(callers)" "$unseen"
  [ -e /proc/1 ] || echo "unseen 0 0 0 hidden"
  # A container that shares the /dev/shm of its host, or of its pod, sees its own processes alone.
  [ "$(readlink /proc/self/ns/pid)" = 'pid:[4026531836]' ] ||
    [ "$(readlink /proc/self/ns/ipc)" != 'ipc:[4026531839]' ] || echo "unseen 0 0 0 host"
  [ ! -e /var/run/secrets/kubernetes.io ] || echo "unseen 0 0 0 pod"
}
"""
# Of what a launcher starts, the names of the variables that it gives to each rank.
_NAMES = "TORCHELASTIC_RUN_ID|LOCAL_RANK|RANK|WORLD_SIZE|CROSS_SIZE|OMPI_COMM_WORLD_RANK|PMI_RANK"
_TOLD = rf"""
echo "clock $(date +%s) $(cut -d ' ' -f 1 /proc/uptime)"
found=$(use) || {{ echo "$found"; exit 1; }}
printf '%s\n' "$found"
printf '%s\n' "$found" | while read -r kind pid rest; do
  [ "$kind" = adopted ] && [ -r "/proc/$pid/environ" ] || continue
  names=$(tr '\0' '\n' <"/proc/$pid/environ" |
    awk -F = '$1 ~ /^({_NAMES})$/ && NF > 1 {{ printf " %s", $1 }}')
  echo "launched $pid$names"
  command=$(tr '\0\n' '  ' <"/proc/$pid/cmdline" | cut -c 1-100 |
    sed -e 's/\([Pp]ass[a-z]*[= ]\)[^ ]*/\1.../g' -e 's/\([Tt]oken[= ]\)[^ ]*/\1.../g')
  echo "command $pid $(stat -c %U "/proc/$pid") ${{command% }}"
done
"""
SECONDS = 20
# Only root sees into the processes of others.
USE = Section("shm.use", LOOK + _TOLD, SECONDS, root=True)


class Segment(State):
    """A file in /dev/shm that no process was seen to use; `modified` in seconds since 1970."""

    name: str
    inode: int
    modified: int
    size: int
    mode: str
    uid: int
    owner: str


class Unseen(State):
    """A process that could not be looked into: the user ids that it has, and its name."""

    uids: tuple[int, ...]
    name: str


class Adopted(State):
    """A process that holds segments or GPUs and whose parent is an init: its own parent ended.

    `start` is in ticks since the boot, `launched` names the variables of a launcher that it was
    started with.
    """

    pid: int
    start: int
    age: int
    tty: bool
    segments: int
    gpus: int
    parent: int
    parent_name: str
    launched: tuple[str, ...] = ()
    user: str = ""
    command: str = ""


class Use(State):
    """The segments that nobody was seen to use, how many others there are, and the adopted.

    `now` is the node's own clock, in seconds since 1970.
    """

    now: int
    unused: tuple[Segment, ...]
    used: int
    used_bytes: int
    unseen: tuple[Unseen, ...]
    adopted: tuple[Adopted, ...]


def parse(text: str) -> Use:
    """Parse lines of `clock`, `segment`, `used`, `adopted`, `launched`, `command` and `unseen`."""
    told: dict[str, list[str]] = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        told.setdefault(kind, []).append(rest)
    if "seen" not in told:
        raise Unreadable(f"who uses /dev/shm was not told to the end: {text.strip()[-80:]!r}")
    now, uptime = told["clock"][0].split()
    used, used_bytes = told["used"][0].split()
    about = (_by_pid(told.get("launched", [])), _by_pid(told.get("command", [])))
    adopted = [_adopted(line, float(uptime), *about) for line in told.get("adopted", [])]
    return Use(
        now=int(now),
        unused=tuple(sorted(map(_segment, told.get("segment", [])), key=lambda each: each.name)),
        used=int(used),
        used_bytes=int(used_bytes),
        unseen=tuple(map(_unseen, told.get("unseen", []))),
        adopted=tuple(sorted(adopted, key=lambda each: each.pid)),
    )


def _segment(line: str) -> Segment:
    inode, modified, size, mode, uid, name, owner = line.split(" ", 6)
    return Segment(
        name=name,
        inode=int(inode),
        modified=int(modified),
        size=int(size),
        mode=mode,
        uid=int(uid),
        owner=owner if owner != "UNKNOWN" else uid,
    )


def _unseen(line: str) -> Unseen:
    *uids, name = line.split(" ", 3)
    return Unseen(uids=tuple(sorted({int(uid) for uid in uids})), name=name)


def _by_pid(lines: list[str]) -> dict[str, str]:
    return {pid: rest for pid, _, rest in (line.partition(" ") for line in lines)}


def _adopted(
    line: str, uptime: float, launched: dict[str, str], command: dict[str, str]
) -> Adopted:
    pid, start, tty, segments, gpus, parent, name = line.split(" ", 6)
    user, _, said = command.get(pid, "").partition(" ")
    return Adopted(
        pid=int(pid),
        start=int(start),
        age=max(0, int(uptime - int(start) / _TICKS)),
        tty=tty != "0",
        segments=int(segments),
        gpus=int(gpus),
        parent=int(parent),
        parent_name=name,
        launched=tuple(launched.get(pid, "").split()),
        user=user,
        command=said,
    )
