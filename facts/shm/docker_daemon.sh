# Functions about a container manager: `daemon` prints one, with what it gives a container by default,
# as lines separated by tabs. `daemon KIND PID STARTED` is followed by what belongs to it: `flag
# --NAME=VALUE` of its command line, `limit NAME SOFT HARD` that its containers inherit, and `file PATH
# SECONDS` with `text` lines of its daemon.json or `problem WHY`. KIND is root, snap or rootless;
# without a PID it does not run. Texts in daemon.json but the size stay on the node: a proxy's password
# or a log driver's token may be among them. Needs $users_files.
newline='
'
named='--default-shm-size|--default-ulimit|--config-file'
# The name in field 2 may have blanks; the start is field 22, in ticks since the boot.
started() {
  sed 's/.*) //' "${root-}/proc/$1/stat" 2>/dev/null |
    awk -v boot="$(awk '$1 == "btime" { print $2 }' /proc/stat)" '{ printf "%d", boot + $20 / 100 }'
}
# runs PID UID: whether it is a dockerd of this account: any process can have this name, and a pid that
# a file names may be another's by now. Root's counts by its program: a user may have started sudo by
# this name. A user who is not root cannot read its program.
runs() {
  case $1 in (*[!0-9]* | '') return 1 ;; esac
  [ "$(awk '$1 == "Uid:" { print $2, $3, $4 }' "${root-}/proc/$1/status" 2>/dev/null)" = "$2 $2 $2" ] ||
    return 1
  [ "$2:${gn_uid:-$(id -u)}" = 0:0 ] || { [ "$(cat "${root-}/proc/$1/comm")" = dockerd ]; return; }
  # In a container any root can have that name, and its flags name files of the container.
  [ "$(readlink "${root-}/proc/$1/ns/pid")" = "$(readlink "${root-}/proc/self/ns/pid")" ] || return 1
  program=$(readlink "${root-}/proc/$1/exe")
  program=${program% (deleted)}
  [ "${program##*/}" = dockerd ]
} 2>/dev/null
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
    case ${3%%"$newline"*} in (*[!0-9]*) printf '%s\n' "$3"; exit 1 ;; esac
  fi
  printf '%s\n' "$3" | file=$file awk '
    # What is outside of texts, if it can be JSON: else a text may have begun elsewhere.
    function plain(part,   rest) {
      rest = part; gsub(/true|false|null/, "", rest)
      return rest ~ /^[][{}:, \t\r0-9.eE+-]*$/ ? part : "?"
    }
    NR > 1 {
      printf "text\t"
      while (match($0, /"([^"\\]|\\.)*"/)) {
        word = substr($0, RSTART, RLENGTH)
        printf "%s", plain(substr($0, 1, RSTART - 1))
        $0 = substr($0, RSTART + RLENGTH)
        is_key = /^[ \t]*:/
        if (is_key) key = word
        printf "%s", (is_key || key == "\"default-shm-size\"" ? word : "\"@hidden@\"")
      }
      print plain($0)
      next
    }
    { printf "file\t%s\t%s\n", ENVIRON["file"], /^[0-9]+$/ ? $0 : "" }
    /[^0-9]/ { gsub(/\t/, " "); print "problem\t" substr($0, 1, 300) }'
}
