# Refuse a reboot while a user's process runs: of the training user, of a user id from UID_MIN on,
# or a step of Slurm. Shells, sshd, screen, tmux and a session's services compute nothing
# themselves.
# Variables: allow (yes: reboot all the same), trainer (the training user). in_use.sh stands before.
# shellcheck shell=sh disable=SC2154
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
cpu_jobs() {
  ours=$(group "/proc/$$")
  ours=${ours:-unknown}
  above=$(callers)
  for process in /proc/[0-9]*; do
    uid=$(awk '$1 == "Uid:" { print $2 }' "$process/status" 2>/dev/null)
    [ -n "$uid" ] || continue # it has ended
    case $(cat "$process/comm" 2>/dev/null) in
      # The process that holds the cgroup of slurmd's steps never ends, and is not a step.
      (slurmstepd) ! words "$process" | grep -q '^[^ ]* infinity' || continue ;;
      (*)
        if [ "$uid" = 0 ]; then
          [ "$trainer_id" = 0 ] && [ -n "$(words "$process")" ] && is_login "$process" || continue
        else
          [ "$uid" -ge "${from:-1000}" ] && [ "$uid" != 65534 ] ||
            [ "$uid" = "$trainer_id" ] || continue
        fi
        ! is_session "$process" || continue
        ! grep -qs '^State:[[:space:]]*Z' "$process/status" || continue ;;
    esac
    case $above in (*" ${process#/proc/} "*) continue ;; esac
    [ "$(group "$process")" != "$ours" ] || continue
    user=$(ls -ld "$process" 2>/dev/null | awk '{ print $3 }')
    [ -n "$user" ] || continue # it has ended
    printf ', pid %s (%s: %s)' "${process#/proc/}" "$user" "$(command_line "$process")"
  done
}
if [ "$allow" != yes ]; then
  busy=$(cpu_jobs)
  [ -z "$busy" ] || {
    echo "gpu-node: not rebooted: processes of users run: ${busy#, }: wait for them, or give --data allow_disruption=true" >&2
    exit 1
  }
fi
