# Prints what bounds the tasks (processes and threads) of this session, beside its own limit: a line
# `NUMBER PLACE` for each of the kernel's limits, and for pids.max of each cgroup around it (systemd's
# TasksMax, a container's --pids-limit). "max" is no limit.
cd /proc/sys/kernel && awk '{ print $1, "kernel." FILENAME }' pid_max threads-max || exit 1
while IFS=: read -r _ names path; do
  case ,$names, in
    (,,) root=/sys/fs/cgroup ;;
    (*,pids,*) root=/sys/fs/cgroup/pids ;;
    (*) continue ;;
  esac
  # In a container the path may be the host's: the top of the mount is then the container's cgroup.
  case $path/ in (*/../*) path= ;; esac
  [ -d "$root$path" ] || path=
  path=${path%/}
  while :; do
    file=$root$path/pids.max
    if [ -r "$file" ] && read -r number <"$file" && [ "$number" != max ]; then
      printf '%s %s\n' "$number" "$file"
    fi
    [ -n "$path" ] || break
    path=${path%/*}
  done
done </proc/self/cgroup
