# The container managers of the node, with what they give a container by default: lines separated by
# tabs. `daemon KIND PID STARTED` is followed by what belongs to it: `flag --NAME=VALUE` of its
# command line, `limit NAME SOFT HARD` that its containers inherit, `file PATH SECONDS` with `text`
# lines of its daemon.json, and `unit PATH LINE TEXT` where its unit sets a flag that we compare. KIND
# is root, snap or rootless; without a PID it does not run. `podman` and `size PATH LINE VALUE`: a
# podman that root has used, and the lines of containers.conf that set its shm_size.
named='--default-shm-size|--default-ulimit|--config-file'
# The name in field 2 may have blanks; the start is field 22, in ticks since the boot.
started() {
  sed 's/.*) //' "${root-}/proc/$1/stat" 2>/dev/null |
    awk -v boot="$(awk '$1 == "btime" { print $2 }' /proc/stat)" '{ printf "%d", boot + $20 / 100 }'
}
runs() {
  pid=
  { read -r pid <"${root-}$1"; } 2>/dev/null || [ -n "$pid" ] || return 1
  case $pid in *[!0-9]* | '') return 1 ;; esac
  [ "$(cat "${root-}/proc/$pid/comm" 2>/dev/null)" = dockerd ]
}
daemon() {
  kind=$1 config=$2 flags=
  if [ -n "$pid" ]; then
    printf 'daemon\t%s\t%s\t%s\n' "$kind" "$pid" "$(started "$pid")"
    flags=$(tr '\0\n' '\n ' <"${root-}/proc/$pid/cmdline" 2>/dev/null | awk -v named="$named" '
      BEGIN { pattern = "^(" named ")(=|$)" }
      before != "" { print "flag\t" before "=" substr($0, 1, 300); before = ""; next }
      $0 !~ pattern { next }
      /=/ { print "flag\t" substr($0, 1, 300); next }
      { before = $0 }')
    [ -z "$flags" ] || printf '%s\n' "$flags"
    # containerd starts the containers where it is a service by itself.
    of=$pid
    for folder in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
      { read -r of <"${root-}$folder/system.slice/containerd.service/cgroup.procs"; } 2>/dev/null && break
      of=$pid
    done
    awk '/^Max (open files|locked memory) / {
      name = /open/ ? "nofile" : "memlock"
      print "limit\t" name "\t" $4 "\t" $5
    }' "${root-}/proc/$of/limits" 2>/dev/null
  else
    printf 'daemon\t%s\t\t\n' "$kind"
  fi
  given=$(printf '%s\n' "$flags" | sed -n 's/^flag.--config-file=//p' | tail -n 1)
  config=${given:-$config}
  if [ -f "${root-}$config" ]; then
    printf 'file\t%s\t%s\n' "$config" "$(stat -L -c %Y "${root-}$config" 2>/dev/null)"
    head -c 65536 "${root-}$config" | awk '{ print "text\t" $0 }' || exit 1
  else
    printf 'file\t%s\t\n' "$config"
  fi
}
if runs /run/docker.pid || command -v "${root-}/usr/bin/dockerd" >/dev/null 2>&1; then
  runs /run/docker.pid || pid=
  daemon root /etc/docker/daemon.json
  for file in /etc/systemd/system/docker.service /etc/systemd/system/docker.service.d/*.conf \
    /run/systemd/system/docker.service.d/*.conf /usr/lib/systemd/system/docker.service \
    /lib/systemd/system/docker.service /etc/default/docker /etc/sysconfig/docker; do
    [ ! -f "${root-}$file" ] || awk -v f="$file" -v named="$named" '
      /^[ \t]*[#;]/ { next }
      $0 ~ named { gsub(/\t/, " "); print "unit\t" f "\t" NR "\t" substr($0, 1, 300) }
    ' "${root-}$file"
  done
fi
! runs /run/snap.docker/docker.pid || daemon snap /var/snap/docker/current/config/daemon.json
for file in "${root-}"/run/user/*/docker.pid; do
  [ -e "$file" ] && runs "${file#"${root-}"}" || continue
  uid=${file#"${root-}"/run/user/}
  home=$({ getent passwd "${uid%%/*}" || grep "^[^:]*:[^:]*:${uid%%/*}:" /etc/passwd; } 2>/dev/null | cut -d: -f6)
  daemon rootless "$home/.config/docker/daemon.json"
done
storage=${root-}/var/lib/containers/storage
if [ -s "$storage/overlay-containers/containers.json" ] || [ -s "$storage/db.sql" ]; then
  echo podman
  for file in /usr/share/containers/containers.conf /etc/containers/containers.conf \
    "${root-}"/etc/containers/containers.conf.d/*.conf; do
    file=${file#"${root-}"}
    [ ! -f "${root-}$file" ] || awk -v f="$file" '
      /^[ \t]*\[/ { inside = /^[ \t]*\[containers\]/ }
      inside && /^[ \t]*shm_size[ \t]*=/ {
        value = $0
        sub(/^[^=]*=[ \t]*/, "", value); gsub(/["\047\t]/, "", value); sub(/[ \t]*(#.*)?$/, "", value)
        print "size\t" f "\t" NR "\t" substr(value, 1, 80)
      }' "${root-}$file"
  done
fi
