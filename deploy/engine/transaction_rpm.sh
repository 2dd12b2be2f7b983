# What yum or dnf would do to installed packages: checked before anything is installed.
# Variables: manager; package_locks.sh stands before this.
# shellcheck shell=sh disable=SC2034,SC2154,SC2086,SC2254
reason() {
  why=$(echo "$1" | grep -E 'Curl error|Status code|[Cc]onnection|[Cc]ould not|[Cc]annot|No package|No match|Unable to find|Problem|Requires|nothing provides|Errno' | head -n 1)
  echo "${why:-$1}" | grep -v '^[[:space:]]*$' | tail -n 1 | sed 's/^[ -]*//' | cut -c 1-300
}
careful=
case $($manager --version 2>/dev/null | head -n 1) in
  (3.*) ;; # yum itself knows of no weak dependencies
  (*) careful='--setopt=install_weak_deps=False' ;;
esac
# simulate PACKAGE...: sets plan to what it would do; fails if it would do no such thing
simulate() {
  patient $manager --assumeno $careful install "$@" || : # it always fails: nothing was agreed to
  plan=$output
  # If one of several packages is not available, it is skipped, with a separate line.
  case $plan in (*'No package '*' available'* | *'No match for argument'*) return 1 ;; esac
  case $plan in (*'Operation aborted'* | *'Exiting on user command'* | *'Nothing to do'*) return 0 ;; esac
  return 1
}
# barred NAME...: the administrator's lines that exclude packages, each with its file and number
barred() {
  for file in /etc/yum.conf /etc/dnf/dnf.conf; do
    grep -nE '^(exclude|excludepkgs) *=' "$file" 2>/dev/null | while IFS= read -r line; do
      for name; do
        for pattern in $(echo "${line#*=}" | tr ',' ' '); do
          case $name in ($pattern) printf '; %s:%s keeps out %s' "$file" "$line" "$name" ;; esac
        done
      done
    done
  done
  for file in /etc/yum/pluginconf.d/versionlock.list /etc/dnf/plugins/versionlock.list; do
    for name; do
      grep -nE "^ *!?([0-9]+:)?$name-[0-9]" "$file" 2>/dev/null | while IFS= read -r line; do
        printf '; %s:%s locks %s' "$file" "$line" "$name"
      done
    done
  done
}
# rows: the plan, each package in one line: yum breaks the line after a long name or version
rows() {
  echo "$plan" | awk '
    /^  +[^ ]/ && row ~ /^ [^ ]/ && $1 != "replacing" { sub(/^ +/, " "); row = row $0; next }
    NR > 1 { print row }
    { row = $0 }
    END { print row }'
}
# harm: what the plan removes, replaces, or boots
harm() {
  rows | awk '
    function tell(what) { printf "%s%s", comma, what; comma = ", " }
    /^[A-Z][A-Za-z ]*:[ \t]*$/ {
      verb = ""
      if (/^Removing/) verb = "remove "
      if (/^(Upgrading|Updating|Downgrading|Reinstalling)/) verb = "replace "
      new = /^Installing/
      next
    }
    /^Transaction Summary/ { verb = ""; new = 0 }
    $1 == "replacing" { tell("replace " $2); next }
    verb && /^ +[^ ]/ && NF >= 3 { tell(verb $1) }
    # Also kernel-64k, kernel-rt, kernel-uek and the like; headers and tools are not booted.
    $1 ~ /-(devel|devel-matched|headers|doc|macros|abi-[a-z]+)$/ || $1 ~ /-tools(-|$)/ { next }
    new && $1 ~ /^kernel(-|$)/ { tell("install the kernel " $3) }'
}
