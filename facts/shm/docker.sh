# The container managers of the node, with what they give a container by default: lines separated by
# tabs. `daemon KIND PID STARTED` is followed by what belongs to it: `flag --NAME=VALUE` of its
# command line, `limit NAME SOFT HARD` that its containers inherit, `file PATH SECONDS` with `text`
# lines of its daemon.json or `problem WHY`, and `unit PATH LINE TEXT` where its unit sets a flag that
# we compare. KIND is root, snap or rootless; without a PID it does not run. `podman` and `size PATH
# LINE VALUE`: a podman that root has used, and the lines of containers.conf that set its shm_size.
# The files of a rootless docker are read as its user. Needs $gn_owner, $users_files.
newline='
'
named='--default-shm-size|--default-ulimit|--config-file'
# The name in field 2 may have blanks; the start is field 22, in ticks since the boot.
started() {
  sed 's/.*) //' "${root-}/proc/$1/stat" 2>/dev/null |
    awk -v boot="$(awk '$1 == "btime" { print $2 }' /proc/stat)" '{ printf "%d", boot + $20 / 100 }'
}
# runs PID UID: whether it is a dockerd of this account: any process can have this name, and a pid that
# a file names may be another's by now.
runs() {
  case $1 in *[!0-9]* | '') return 1 ;; esac
  [ "$(cat "${root-}/proc/$1/comm" 2>/dev/null)" = dockerd ] &&
    [ "$(awk '$1 == "Uid:" { print $2, $3, $4 }' "${root-}/proc/$1/status" 2>/dev/null)" = "$2 $2 $2" ]
}
# of_root FILE: sets $pid to the dockerd of root that a file names.
of_root() {
  pid=
  { read -r pid <"${root-}$1"; } 2>/dev/null
  runs "$pid" 0 || { pid=; return 1; }
}
# Prints when $1 was changed, an empty line without a file or why it cannot be read; then its text.
# shellcheck disable=SC2016
config='[ -e "$1" ] || { echo; exit; }
why=$(users_files "$1" 2>&1) || { printf "%s\n" "$why"; exit; }
stat -L -c %Y "$1" 2>/dev/null || echo 0
head -c 65536 "$1"'
# daemon KIND FILE CONTENT: CONTENT as above.
daemon() {
  kind=$1 file=$2 flags=
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
  # As root no file is read that the process of a user names.
  if [ "$kind" != rootless ]; then
    given=$(printf '%s\n' "$flags" | sed -n 's/^flag.--config-file=//p' | tail -n 1)
    file=${given:-$file}
    # shellcheck disable=SC2154
    set -- "$kind" "$file" "$(eval "$users_files"; set -- "${root-}$file"; eval "$config")"
    case ${3%%"$newline"*} in *[!0-9]*) printf '%s\n' "$3"; exit 1 ;; esac
  fi
  printf '%s\n' "$3" | file=$file awk '
    NR > 1 { print "text\t" $0; next }
    { printf "file\t%s\t%s\n", ENVIRON["file"], /^[0-9]+$/ ? $0 : "" }
    /[^0-9]/ { gsub(/\t/, " "); print "problem\t" substr($0, 1, 300) }'
}
if of_root /run/docker.pid || command -v "${root-}/usr/bin/dockerd" >/dev/null 2>&1; then
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
! of_root /run/snap.docker/docker.pid || daemon snap /var/snap/docker/current/config/daemon.json
for file in "${root-}"/run/user/*/docker.pid; do
  [ -e "$file" ] || continue
  uid=${file#"${root-}"/run/user/} uid=${uid%%/*}
  # shellcheck disable=SC2154
  eval "$gn_owner"
  IFS=: read -r _ _ _ _ _ home _ <<END
$(owner_account "$uid")
END
  home=$home/.config/docker/daemon.json
  # Its pid, and its daemon.json as above. The user may stop what runs as that user.
  # shellcheck disable=SC2016,SC2034
  theirs=$(owner_seconds=2; as_account "$uid" sh -c "$users_files"'
    pid=
    ! users_files "$1" >/dev/null 2>&1 || read -r pid <"$1"
    printf "%s\n" "$pid"
    shift
    '"$config" sh "$file" "${root-}$home" 2>/dev/null | head -c 70000)
  pid=${theirs%%"$newline"*}
  theirs=${theirs#"$pid"}
  ! runs "$pid" "$uid" || daemon rootless "$home" "${theirs#"$newline"}"
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
