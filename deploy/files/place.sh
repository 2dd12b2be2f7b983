# Files that are renamed into place: a crash or a full disk leaves the complete old or new one.
# shellcheck shell=sh

# durable FILE: makes sure that its content is on the disk. Without this, a file renamed just before
# a crash can be empty. sync(1) is not used: before coreutils 8.24 it syncs all disks, and one may
# hang.
durable() { dd if=/dev/null of="$1" conv=notrunc,fsync 2>/dev/null; }

# all_durable FOLDER: the same for the files that were written below it in the last hour, as far as
# that takes no longer than a minute. Files in folders of others are left out: a link could take
# their place before they are opened.
all_durable() {
  command -v timeout >/dev/null 2>&1 || return 0
  case $(sync --help 2>&1) in
    (*FILE*) set -- sync -f "$1" ;;
    # One file after the other: see above.
    (*) set -- find "$1" -xdev -type d \( ! -user "$(id -u)" -o -perm -002 \) -prune -o \
      -type f -cmin -60 -exec sh -c \
      'for each; do dd if=/dev/null of="$each" conv=notrunc,fsync; done' sh {} + ;;
  esac
  timeout 60 "$@" >/dev/null 2>&1 9>&- || :
}

# renamed NEW FILE: one rename, and never into a folder that a link at FILE leads to.
renamed() {
  mv -fT -- "$1" "$2" 2>/dev/null && return
  # mv of an older busybox has no -T.
  [ ! -d "$2" ] && mv -f -- "$1" "$2"
}

# why_not_renamed FILE: a file that is a mount keeps its place, also where root renames another one to it.
why_not_renamed() {
  file=$1 awk '{ gsub(/\\040/, " ", $5) } $5 == ENVIRON["file"] { found = 1 } END { exit !found }' \
    /proc/self/mountinfo 2>/dev/null || {
    echo 'cannot be renamed into place'
    return
  }
  echo 'cannot be renamed into place: it is a mount, as docker and podman make of /etc/hosts; next:' \
    'change the file that is mounted, or how its container is started (--add-host NAME:ADDRESS)'
}

# place NEW FILE: replaces FILE by the written file NEW.
place() { durable "$1" && renamed "$1" "$2"; }

# put FILE: its text is stdin; its mode stays, and a file that has that text. Only for folders of root. With
# noted.sh the run keeps what the file was before.
put() {
  mkdir -p -- "${1%/*}" && rm -f -- "$1.gpu-node" && { [ ! -e "$1" ] || cp -p -- "$1" "$1.gpu-node"; } &&
    cat >"$1.gpu-node" && if cmp -s -- "$1" "$1.gpu-node"; then rm -f -- "$1.gpu-node"; return; fi &&
    { ! command -v kept >/dev/null 2>&1 || kept "$1" "$1.gpu-node"; } && place "$1.gpu-node" "$1" || { rm -f -- "$1.gpu-node"; return 1; }
}
