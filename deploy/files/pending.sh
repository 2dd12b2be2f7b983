# Records of changes that the node undoes unless a new session confirms them. They survive the
# session, and a reboot: then a unit undoes them, or the next run settles them. A record is a
# folder: `undo` (a script; without it nothing waits), `old` (what the file held), `about` (the line of
# the run's manifest: see replace.sh), `then` (sh: has a daemon read the file; not always there), `kept`
# (it is confirmed, and only has to be removed), `restored` (only the daemon is left).
# Variables: pending (the folder of all records), those of as_user_within.sh: user is whose home the file
# is in, empty for root's file.
# Needs: as_user_within place
# shellcheck shell=sh disable=SC2154
unit=/etc/systemd/system/gpu-node-undo.service
wanted=/etc/systemd/system/multi-user.target.wants/${unit##*/}

# as_owner SH: as the file's owner.
as_owner() { as_user_within 120 "$@"; }

has_systemd() { [ "$(id -u)" = 0 ] && [ -d /run/systemd/system ]; }

# Only its owner may read or replace the records: their scripts run as root.
is_closed() {
  [ -d "$1" ] && [ ! -L "$1" ] && [ -O "$1" ] && case $(ls -ldn "$1") in (d???------*) ;; (*) false ;; esac
}

# hold RECORD: waits for the run that makes its change, or what confirms or undoes it, and keeps others
# from that until this script ends; fails if it is settled. Without flock(1) it continues without a lock.
hold() {
  { command exec 8<"$1/undo"; } 2>/dev/null || return 1
  ! command -v flock >/dev/null 2>&1 || flock 8
  [ -e "$1/undo" ]
}

# remove RECORD: a part of it never waits.
remove() {
  rm -f "$1/undo"
  rm -rf "$1"
  tidy
}

# systemd reads it at the next boot: it needs no reload, which takes GPUs from running containers.
# It begins with the records at boot, and tries again while a home is not mounted yet.
undo_at_boot() {
  has_systemd || return 0
  mkdir -p "${wanted%/*}" && cat >"$unit.new" <<END && mv -f "$unit.new" "$unit" && ln -sf "../${unit##*/}" "$wanted"
[Unit]
Description=Undo changes of gpu-node that no new session confirmed
After=local-fs.target nss-user-lookup.target ssh.service sshd.service
[Service]
ExecStart=/bin/sh -c 'set -- $pending/*/undo; for round in 1 2 3 4 5 6 7 8 9 10 11 12; do again=; for each; do [ ! -f "\$\$each" ] || { sh "\$\$each"; [ ! -f "\$\$each" ] || again=yes; }; done; [ "\$\$again" ] || exit 0; sleep 10; done'
[Install]
WantedBy=multi-user.target
END
}

# Remove the unit if no record is left; another run may begin a record at this moment.
tidy() {
  # A part of a record that a killed run was removing.
  for each in "$pending"/*; do [ -e "$each/undo" ] || rm -rf "$each"; done
  rmdir "$pending" 2>/dev/null || [ ! -e "$pending" ] || return 0
  ! has_systemd || rm -f "$unit" "$unit.new" "$wanted"
  [ ! -e "$pending" ] || undo_at_boot
}
