# Notes what a run does on a node, in its folder: files that are written by `put`, and what is changed beside
# files. `gpu-node restore` puts the files back, and lists the rest.
# Variables: backups (the run's folder; empty: nothing is noted).
# Given: backups
# Needs: writers closed place record
# shellcheck shell=sh disable=SC2154,SC2034

# noted_line FILE LINE: adds a line, as record.sh writes it, to a record of this run; else it sets `why`.
noted_line() {
  [ -n "$backups" ] || return 0
  closed "${backups%/*}" "$backups" || return 1
  why='disk full?'
  (umask 077; printf '%s\n' "$2" >>"$backups/$1") && durable "$backups/$1"
}
noted_sum() { sha256sum <"$1" | cut -d' ' -f1; }

# saved FILE: keeps a copy of root's FILE as the run finds it, and prints sum, mode and owner of it.
saved() {
  [ -e "$1" ] || { echo 'absent - -'; return; }
  why='disk full?'
  noted_was="$(noted_sum "$1") $(stat -L -c '%a %u:%g' "$1")" && { [ -z "$backups" ] || noted_copy "$1"; } ||
    { echo "gpu-node: $1: cannot be backed up in $backups ($why)" >&2; return 1; }
  echo "$noted_was"
}
# noted_copy FILE [COPY]: keeps COPY, or the file itself, as what FILE was before this run; else it sets `why`.
noted_copy() {
  closed "${backups%/*}" "$backups${1%/*}" || return 1
  [ ! -e "$backups$1" ] || return 0
  why='disk full?'
  cp -p "${2:-$1}" "$backups$1" && durable "$backups$1" || { rm -f "$backups$1"; return 1; }
}
# written FILE WAS [NEW]: notes that root's FILE, of which WAS is what `saved` printed, is as it is now, or
# is to be as NEW, or absent if NEW is empty. The line is BEFORE AFTER MODE UID:GID USER PATH.
written() {
  noted_new=absent noted_old=${2%% *} noted_owners=${2##* } noted_mode=${2#* }
  case ${3-$1} in ('') ;; (*) [ ! -e "${3-$1}" ] || noted_new=$(noted_sum "${3-$1}") ;; esac
  [ "$noted_old" = "$noted_new" ] ||
    noted_line manifest "$(record "$noted_old" "$noted_new" "${noted_mode% *}" "$noted_owners" root "$1")" ||
    { echo "gpu-node: $backups/manifest: cannot be written ($why)" >&2; return 1; }
}
# kept FILE NEW: both, before NEW replaces FILE; NEW is empty if FILE is to be removed.
kept() {
  noted_was=$(saved "$1") && written "$1" "$noted_was" "$2"
}

# note KIND WORD...: when this script ends, notes what it has changed: `packages`, or `wheels ACCOUNT PREFIX`
# (`base-wheels`: by a pip of its base), as they differ then; or `copy ACCOUNT PATH`, `module SOURCE VERSION KERNEL` and the like, as they are here, if
# it succeeds. ACCOUNT is whose it is, and who can take it back.
note() {
  noted_kind=$1
  noted_words=$(record "$@")
  case $1 in (*wheels) noted_prefix=$3 ;; esac
  noted_before=$(noted_there)
  trap 'noted_code=$?; noted_end; ! command -v clear_sent >/dev/null 2>&1 || clear_sent' EXIT
  trap 'exit 1' HUP INT TERM
}
# The packages of the system, or the names of what is installed in a Python environment, which no
# program of it is asked for.
noted_there() {
  set +f # the script may take no word for a pattern; this is in a subshell
  case $noted_kind in
    (packages)
      # shellcheck disable=SC2016
      ! command -v dpkg-query >/dev/null 2>&1 ||
        dpkg-query -W -f '${db:Status-Abbrev} ${Package} ${Version}\n' 2>/dev/null |
        awk '$1 ~ /^.i/ { print "deb", $2, $3 }'
      ! command -v rpm >/dev/null 2>&1 ||
        rpm -qa --qf 'rpm %{NAME} %{VERSION}-%{RELEASE}\n' 2>/dev/null
      ;;
    (*wheels)
      for each in "$noted_prefix"/lib/python*/site-packages/*.dist-info; do
        # A user may have made it: a line break in a name would begin another line.
        case ${each##*/} in (*[!A-Za-z0-9._+!-]*) continue ;; esac
        [ ! -d "$each" ] || printf '%s\n' "$noted_words ${each##*/}"
      done
      ;;
  esac
}
# A note that cannot be written stops nothing: it is only listed.
noted_end() {
  {
    case $noted_kind in
      (packages | *wheels)
        { printf '%s\n' "$noted_before" | sed 's/^/- /'; noted_there | sed 's/^/+ /'; } | sort -k2 |
          awk '{ line = substr($0, 3); count[line]++; sign[line] = $1 }
            END { for (line in count) if (count[line] == 1 && line != "") print sign[line], line }' |
          sort -k2 | head -n 500
        ;;
      (*) [ "$noted_code" != 0 ] || printf '%s\n' "+ $noted_words" ;;
    esac
  } | while IFS= read -r line; do noted_line also "$line" || break; done
}
