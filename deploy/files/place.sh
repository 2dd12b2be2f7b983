# Files that are renamed into place: a crash or a full disk leaves the complete old or new one.
# shellcheck shell=sh

# durable FILE: makes sure that its content is on the disk. Without this, a file renamed just before
# a crash can be empty. sync(1) is not used: before coreutils 8.24 it syncs all disks, and one may
# hang.
durable() { dd if=/dev/null of="$1" conv=notrunc,fsync 2>/dev/null; }

# renamed NEW FILE: one rename, and never into a folder that a link at FILE leads to.
renamed() {
  mv -fT -- "$1" "$2" 2>/dev/null && return
  # mv of an older busybox has no -T.
  [ ! -d "$2" ] && mv -f -- "$1" "$2"
}

# place NEW FILE: replaces FILE by the written file NEW.
place() { durable "$1" && renamed "$1" "$2"; }

# put FILE: its text is stdin; its mode stays. Only for folders of root.
put() {
  mkdir -p -- "${1%/*}" && rm -f -- "$1.gpu-node" && { [ ! -e "$1" ] || cp -p -- "$1" "$1.gpu-node"; } &&
    cat >"$1.gpu-node" && place "$1.gpu-node" "$1" || { rm -f -- "$1.gpu-node"; return 1; }
}
