# What yum or dnf would do to packages that are there: to be asked before anything is installed.
# Variables: manager; package_locks.sh stands before this.
# shellcheck shell=sh disable=SC2034,SC2154,SC2086,SC2254
reason() {
  why=$(echo "$1" | grep -E 'Curl error|Status code|[Cc]onnection|[Cc]ould not|[Cc]annot|No package|No match|Unable to find|Problem|Requires|nothing provides|Errno' | head -n 1)
  echo "${why:-$1}" | grep -v '^[[:space:]]*$' | tail -n 1 | sed 's/^[ -]*//' | cut -c 1-300
}
careful=
case $($manager --version 2>/dev/null | head -n 1) in
  3.*) ;; # yum itself knows of no weak dependencies
  *) careful='--setopt=install_weak_deps=False' ;;
esac
# simulate PACKAGE...: leave in plan what it would do; fails where it would do nothing of the kind
simulate() {
  patient $manager --assumeno $careful install "$@" || : # it always fails: nothing was agreed to
  plan=$output
  # One of several that cannot be had is passed over, in a line of its own.
  case $plan in *'No package '*' available'* | *'No match for argument'*) return 1 ;; esac
  case $plan in *'Operation aborted'* | *'Exiting on user command'* | *'Nothing to do'*) return 0 ;; esac
  return 1
}
# barred NAME...: the lines of an administrator that keep packages out, each with its file and number
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
# rows: the plan, each package in a line: yum goes on in the next one after a long name or version
rows() {
  echo "$plan" | awk '
    /^  +[^ ]/ && row ~ /^ [^ ]/ && $1 != "replacing" { sub(/^ +/, " "); row = row $0; next }
    NR > 1 { print row }
    { row = $0 }
    END { print row }'
}
# harm: what the plan takes away, puts in another's place, or boots
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
    # Of kernel-64k, kernel-rt, kernel-uek and the like, too; headers and tools boot nothing.
    $1 ~ /-(devel|devel-matched|headers|doc|macros|abi-[a-z]+)$/ || $1 ~ /-tools(-|$)/ { next }
    new && $1 ~ /^kernel(-|$)/ { tell("install the kernel " $3) }'
}
