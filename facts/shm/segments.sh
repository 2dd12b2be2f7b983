# Functions only: the script that removes segments uses them too. Names with blanks or quotes are
# not from these programs, and are skipped. Of POSIX semaphores only those of Python's
# multiprocessing are listed: others may have no process between two uses. It needs $gn_process.
LC_ALL=C; export LC_ALL
export gn_process # for the sh of awk
eval "$gn_process"
place=${place:-/dev/shm}
# The new parents of processes whose parent ended; any other parent is alive and responsible.
reapers='^(systemd|init|tini|dumb-init|docker-init|podman-init|catatonit)$'
segments() {
  find "$place/" -maxdepth 1 -type f \( -name 'nccl-*' -o -name 'sem.mp-*' \
    -o -name 'torch_[0-9]*_*' -o -name '__KMP_REGISTERED_LIB_*' \) \
    ! -name '*[!-A-Za-z0-9._+:=@%,~]*' \
    -exec stat -c 'S %i %Y %s %a %u %n %U' {} +
}
# Converts the device number of stat(1) to the form in /proc/PID/maps.
device() {
  number=$(stat -L -c %d "$place/") || return 1
  printf '%02x:%02x\n' $((number >> 8 & 0xfff)) $((number & 0xff | number >> 12 & 0xfff00))
}
# Linux before 4.1 does not report the pid that a process has inside its container.
has_unknown_pids() {
  ! grep -qs '^NSpid:' /proc/self/status || return 1
  spaces=$(of_processes ns/pid ls -ln 2>/dev/null) || return 0
  [ "$(printf '%s\n' "$spaces" | sed -n 's/.* -> //p' | sort -u | wc -l)" -gt 1 ]
}
held() {
  of_processes maps grep -HF -e " $dev " -e /nccl- -e /sem.mp- -e /torch_ -e /__KMP_ || return
  of_processes status grep -H -e '^NSpid:' -e '^Pid:' -e '^Uid:' || return
  # A name may contain a newline and a text like our lines; busybox prints it as ?.
  quoted=; ! ls -q / >/dev/null 2>&1 || quoted=q
  of_processes fd ls "-ln$quoted" /dev/null || return
  echo whole
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
# taken_by(PID, UID): a process that has this pid, here or in its container, where none that has it is
# of this user: the one that made the file has ended, or its user has changed.
function taken_by(pid, uid,   count, each, i) {
  count = split(alive[pid], each, " ")
  for (i = 1; i <= count; i++)
    if (ids[each[i]] == "" || index(ids[each[i]] " ", " " uid " ")) return ""
  return each[1]
}
function look(   read, line, part, name, all) {
  read = "eval \"$gn_process\"; process_stat && echo whole"
  while ((read | getline line) > 0) {
    if (line == "whole") { all = "yes"; break }
    split(line, part, " ")
    name = line; sub(/^[^\t]*\t/, "", name)
    comm[part[1]] = name; parent[part[1]] = part[3]; tty[part[1]] = part[6]; start[part[1]] = part[21]
  }
  close(read)
  whole = all
}
$1 == "S" && NF > 7 {
  name = base($7)
  if (name ~ /^(torch|__KMP)_/ && maker(name) == "") next
  of[$2] = name; uid[name] = $6; owner = $8
  for (i = 9; i <= NF; i++) owner = owner " " $i
  segment[name] = $2 " " $3 " " $4 " " $5 " " $6 " " name " " owner
  next
}
/^\/proc\/[0-9]+\/maps:/ {
  split($1, part, "/"); pid = part[3]
  if ($4 == dev && ($5 in of)) hold(of[$5])
  else if (base($0) in segment) hold(base($0))
  next
}
/^\/proc\/[0-9]+\/status:/ {
  split($1, part, "/"); pid = part[3]
  if ($1 ~ /:Uid:$/) ids[pid] = " " $2 " " $3 " " $4 " " $5
  else for (i = 2; i <= NF; i++) alive[$i] = alive[$i] " " pid
  next
}
/^\/proc\/[0-9]+\/fd:$/ { split($1, part, "/"); pid = part[3]; next }
/ -> \/dev\/nvidia[0-9]+$/ { if (!((pid, $NF) in has)) { has[pid, $NF]; gpus[pid]++ }; next }
$0 == "whole" { whole = "yes" }
/ -> / { if (base($0) in segment) hold(base($0)) }
END {
  for (name in segment) {
    pid = maker(name); taken = ""
    if (pid in alive) taken = taken_by(pid, uid[name])
    if (pid != "" && taken == "" && (unknown == "yes" || (pid in alive))) used[name]
    if (name in used) continue
    if (taken != "") { split(ids[taken], part, " "); print "taken", part[1], segment[name] }
    else print "segment", segment[name]
  }
  for (pid in gpus) holds[pid] += 0
  for (pid in holds) { look(); break }
  for (pid in holds) {
    above = parent[pid]
    if ((pid in start) && (above in start) && (above == 1 || comm[above] ~ reapers))
      print "adopted", pid, start[pid], tty[pid], holds[pid], gpus[pid] + 0, above, comm[above]
  }
  if (whole) print "seen"
}'
# Lists processes that could not be examined: their user ids and names. With sudo, parts of the probe
# below its first shell ($gn_top) belong to the SSH user: they are not a job.
unseen='
function is_ours(pid,   level) {
  for (level = 0; top && pid > 1 && level < 30; level++) {
    if (pid == top) return 1
    pid = parent[pid] + 0
  }
  return 0
}
/^\/proc\/[0-9]+\/status:/ {
  split($1, part, "/"); pid = part[3]
  if ($1 ~ /:Name:$/) { name[pid] = substr($0, length($1) + 2); gsub(/[^ -~]/, "?", name[pid]) }
  if ($1 ~ /:PPid:$/) parent[pid] = $2
  if ($1 ~ /:Uid:$/) ids[pid] = " " $2 " " $3 " " $4
  next
}
/No such (file|process)/ { next }
match($0, /\/proc\/[0-9]+\//) {
  pid = substr($0, RSTART + 6, RLENGTH - 7)
  if (pid in asked || index(callers, " " pid " ")) next
  asked[pid]
  if ((pid in ids) && !is_ours(pid)) print "unseen" ids[pid], name[pid]
}'
# grep reads the files: at a process that ends meanwhile awk would fail, or print an error.
who() { of_processes status grep -H -e '^Name:' -e '^PPid:' -e '^Uid:' 2>/dev/null; }
use() {
  [ -r "$place/" ] && [ -x "$place/" ] || { echo "$place cannot be listed"; return 1; }
  dev=$(device) || return 1
  unknown=no; ! has_unknown_pids || unknown=yes
  exec 3>&1
  errors=$({ { segments; held; } |
    awk -v dev="$dev" -v unknown="$unknown" -v reapers="$reapers" "$joined" >&3; } 2>&1)
  exec 3>&-
  [ -z "$errors" ] || { who; printf '%s\n' "$errors"; } |
    awk -v callers=" 1 $(callers)" -v top="${gn_top:-0}" "$unseen"
  [ -e /proc/1 ] || echo "unseen 0 0 0 hidden"
  # A container that shares the /dev/shm of its host or pod sees only its own processes.
  [ "$(readlink /proc/self/ns/pid)" = 'pid:[4026531836]' ] ||
    [ "$(readlink /proc/self/ns/ipc)" != 'ipc:[4026531839]' ] || echo "unseen 0 0 0 host"
  [ ! -e /var/run/secrets/kubernetes.io ] || echo "unseen 0 0 0 pod"
}
