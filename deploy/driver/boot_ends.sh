# What a boot ends for good: containers that see GPUs, and processes of users. The functions use those of
# containers.sh and in_use.sh.
# Variables: trainer (the training user).
# shellcheck shell=sh disable=SC2154
# monitors NAMESPACE: whether all processes of a container only monitor
monitors() {
  inside=$(outside | awk -v space="$1" '$2 == space { print $1 }')
  for pid in $inside; do is_harmless "/proc/$pid" || return 1; done
  [ -n "$inside" ]
}
# by_docker ID: what docker has about a container, its name with a / in front. podman as docker has policies
# that only one of its services obeys.
by_docker() {
  [ "$1" != - ] || { echo 'restart policy unknown: it has no id'; return; }
  { answer=$(timeout -s KILL 10 docker inspect --type container --format \
    '{{.Name}}, image {{.Config.Image}}, restart policy {{.HostConfig.RestartPolicy.Name}}' "$1" 2>&1 </dev/null)
    code=$?; } 2>/dev/null
  answer=$(printf '%s' "$answer" | tail -n 1 | tr -c '\40-\176' '?' | cut -c 1-300)
  case $code$answer in
    (0/*) printf '%s' "${answer#/}" ;;
    (0*) echo 'restart policy unknown: podman may not start it again' ;;
    (124* | 137*) echo 'restart policy unknown: docker does not answer' ;;
    (*) printf '%s' "restart policy unknown: $answer" ;;
  esac
}
# ended_containers: those that a boot ends; behind ~ those that only monitor, or that docker starts again.
# A process of theirs that holds a GPU is a job nevertheless. Their namespaces are left in `judged`.
ended_containers() {
  found=$(gpu_containers)
  judged=$(printf '%s\n' "$found" | cut -d ' ' -f 1)
  printf '%s\n' "$found" | while read -r space id text; do
    case $space in ('') continue ;; (-) printf '%s\n' "$text"; continue ;; esac
    if monitors "$space"; then why='it only monitors'; else why=$(by_docker "$id"); fi
    case $why in (*monitors | *', restart policy always' | *', restart policy unless-stopped') printf '~' ;; esac
    printf '%s\n' "${text%)}; $why)"
  done
}
# A user's process is one of the training user, of a user id from UID_MIN on, or a step of Slurm.
from=$(awk '$1 == "UID_MIN" { print $2 + 0 }' /etc/login.defs 2>/dev/null)
trainer_id=$(id -u "$trainer" 2>/dev/null)
is_session() {
  path=$(readlink "$1/exe" 2>/dev/null) || return 1
  path=${path% (deleted)}
  case ${path%/*} in
    (/bin | /sbin | /usr/bin | /usr/sbin | /lib | /lib/*) ;;
    (/usr/lib | /usr/lib/* | /usr/libexec | /usr/libexec/*) ;;
    (*) return 1 ;;
  esac
  case ${path##*/} in
    (sh | bash | dash | zsh | fish | ksh | ksh93 | mksh | tcsh | csh | busybox | login | su | sudo) ;;
    (agetty | mingetty | getty) ;;
    (sshd | sshd-session | sshd-auth | sftp-server | screen | screen-* | tmux | tmux-* | mosh-server) ;;
    (systemd | systemd-executor | dbus-daemon | dbus-broker | dbus-broker-launch) ;;
    (ssh-agent | gpg-agent) ;;
    (*) return 1 ;;
  esac
}
# Its command line; kernel threads and ended processes have none.
words() { { tr '\0' ' ' <"$1/cmdline"; } 2>/dev/null; }
# Processes of root are services, unless they belong to a login: by logind's slice, or a terminal.
is_login() {
  grep -qs '/user\.slice/' "$1/cgroup" ||
    [ "$(process_stat_of "$1/stat" | cut -d ' ' -f 6)" != 0 ]
}
# computes PROCESS: whether it is a user's. Shells, sshd, screen, tmux and a session's services compute
# nothing themselves.
computes() {
  name='' uid=''
  { while read -r key value _; do
      case $key in
        (Name:) name=$value ;;
        (State:) case $value in ([ZX]*) break ;; esac ;;
        (Uid:) uid=$value; break ;;
      esac
    done <"$1/status"; } 2>/dev/null
  case $name:$uid in
    (*:) return 1 ;; # it has ended
    # The process that holds the cgroup of slurmd's steps never ends, and is not a step.
    (slurmstepd:*) ! words "$1" | grep -q '^[^ ]* infinity'; return ;;
    (*:0) [ "$trainer_id" = 0 ] && [ -n "$(words "$1")" ] && is_login "$1" || return ;;
    (*) [ "$uid" -ge "${from:-1000}" ] && [ "$uid" != 65534 ] || [ "$uid" = "$trainer_id" ] || return ;;
  esac
  ! is_session "$1" &&
    ! printf '%s\n' "$judged" | grep -qxF -e "$(readlink "$1/ns/mnt" || echo -)"
}
# is_job PROCESS: whether it holds a GPU or is a user's; 2 where that is unknown
is_job() {
  holds "$1"
  case $? in (0) ;; (2) return 2 ;; (*) computes "$1" ;; esac
}
