# Files that are renamed into place: a crash or a full disk leaves the old one or the new one, whole.
# shellcheck shell=sh

# durable FILE: what was written into it is on the disk. Without this, a file renamed just before a
# crash can be empty. Not sync(1): before coreutils 8.24 it writes all disks, of which one may hang.
durable() { dd if=/dev/null of="$1" conv=notrunc,fsync 2>/dev/null; }

# renamed NEW FILE: one rename, and never into a folder that a link at FILE leads to.
renamed() {
  mv -fT -- "$1" "$2" 2>/dev/null && return
  # mv of an older busybox has no -T.
  [ ! -d "$2" ] && mv -f -- "$1" "$2"
}

# place NEW FILE: put a written file in another one's place.
place() { durable "$1" && renamed "$1" "$2"; }

# put FILE: its text is stdin; what others may do with it stays. For folders of root's alone.
put() {
  mkdir -p -- "${1%/*}" && rm -f -- "$1.gpu-node" && { [ ! -e "$1" ] || cp -p -- "$1" "$1.gpu-node"; } &&
    cat >"$1.gpu-node" && place "$1.gpu-node" "$1" || { rm -f -- "$1.gpu-node"; return 1; }
}
