# yum and dnf for transaction.sh; transaction_deb.sh has the same functions for apt.
# Variables: manager.
# shellcheck shell=sh disable=SC2030,SC2031,SC2034,SC2154,SC2254
verb=install fetched=
reason() {
  why=$(echo "$1" | grep -E 'Curl error|Status code|[Cc]onnection|[Cc]ould not|[Cc]annot|No package|No match|Unable to find|Problem|Requires|nothing provides|Errno' | head -n 1)
  echo "${why:-$1}" | grep -v '^[[:space:]]*$' | tail -n 1 | sed 's/^[ -]*//' | cut -c 1-300
}
# The limit would remove the headers of another kernel.
careful='--setopt=installonly_limit=0'
versionlock=yum-plugin-versionlock
case $($manager --version 2>/dev/null | head -n 1) in
  (3.*) ;; # yum itself knows of no weak dependencies
  (*)
    careful="$careful --setopt=install_weak_deps=False"
    versionlock='dnf-command(versionlock)'
    ;;
esac
# rpm cannot be queried either while its database is locked.
ready() { [ "$look" = yes ] || wait_for_locks; }
# installed NAME: its version; nothing if it is not installed
installed() {
  ! is_begun "$1" || rpm -q --qf '%{VERSION}-%{RELEASE}\n' "$1" 2>/dev/null | head -n 1
}
unpacked() { installed "$1"; }
is_begun() { rpm -q "$1" >/dev/null 2>&1; }
# offered NAME: the versions in the repositories
offered() {
  $manager -q --showduplicates list available "$1" 2>/dev/null </dev/null |
    awk -v name="$1" 'index($1, name ".") == 1 { print $2 }'
}
# pin NAME: sets pinned, which asks for it at the wanted version, whatever the release, or of a branch
pin() { case $version in (*.*.*) pinned="$1-$version-*" ;; (*) pinned="$1-$version.*" ;; esac; }
# repair PACKAGE: let it be installed again where it is installed, and files of it are missing
repair() { verb=install; ! is_begun "$1" || verb=reinstall; }
# shellcheck disable=SC2086 # words
with_options() { "$manager" $careful $options "$@"; }
# simulate PACKAGE...: sets plan to what it would do; fails if it would do no such thing
simulate() {
  if [ "$look" = no ]; then
    tried '' "$@"
    return
  fi
  # The lists that the node has; where they have no answer new ones, which it does not keep.
  tried -C "$@" && return
  careful="$careful --setopt=timeout=8 --setopt=retries=1"
  tried "--setopt=cachedir=$work" "$@"
}
tried() {
  cache=$1
  shift
  # It always fails, because nothing was agreed to; and it writes its history of transactions all the same. yum has
  # the keys of repositories with repo_gpgcheck beside that history.
  [ ! -d /var/lib/yum/repos ] || [ -e "$work/repos" ] || cp -a /var/lib/yum/repos "$work/" 2>/dev/null
  patient with_options --assumeno --setopt=persistdir="$work" ${cache:+"$cache"} "$verb" "$@" || :
  plan=$output
  # If one of several packages is not available, it is skipped, with a separate line.
  case $plan in (*'No package '*' available'* | *'No match for argument'*) return 1 ;; esac
  case $plan in (*'Operation aborted'* | *'Exiting on user command'* | *'Nothing to do'*) return 0 ;; esac
  return 1
}
install() { patient with_options -y "$verb" "$@"; }
# plugin PACKAGE COMMAND...: make sure that a command works, which may need that package
plugin() (
  named=$1 options='' verb=install
  shift
  ! patient "$@" || exit 0
  transact "$named" || :
  why=$output
  ! patient "$@" || exit 0
  output=$why
  fail "$(no_answer "$output")'$*' needs $named, which cannot be installed: $(reason "$output")$unchanged"
)
# hold NAME...: no update replaces them, each at the version that is installed
hold() {
  plugin "$versionlock" "$manager" -q --disablerepo='*' versionlock list || return 1
  for name; do set -- "$@" "$name-$(installed "$name")"; shift; done
  patient "$manager" -q --disablerepo='*' versionlock add "$@"
}
# lift: pass over the excludes that keep out what is named, where a script may
lift() {
  [ "$may_lift" = yes ] && [ -z "$lifted" ] && lifted=$(barred "$named") && [ -n "$lifted" ] || return 1
  options=--disableexcludes=all
}
# barred NAMES: the administrator's lines that keep out packages, each with its file and number
barred() {
  for name in $1; do
    find /etc/yum.conf /etc/dnf/dnf.conf /etc/yum.repos.d -type f -name '*.[cr]*' 2>/dev/null | while read -r file; do
      # Lines with a blank in front continue the one before.
      awk '/^(exclude|excludepkgs) *=/ { open = 1; print NR ":" $0; next }
        open && /^[ \t]/ { print NR ":" $0; next }
        { open = 0 }' "$file" 2>/dev/null | while IFS= read -r line; do
        for pattern in $(echo "${line#*=}" | tr ',' ' '); do
          case $name in ($pattern) printf '; %s:%s keeps out %s' "$file" "$line" "$name" ;; esac
        done
      done
    done
    for file in /etc/yum/pluginconf.d/versionlock.list /etc/dnf/plugins/versionlock.list; do
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
# planned: each package of the plan: a verb (new, remove, replace), its name and version
planned() {
  rows | awk '
    /^[A-Z][A-Za-z \/]*:[ \t]*$/ {
      verb = /^Installing/ ? "new" : ""
      if (/^Removing/) verb = "remove"
      if (/^(Upgrading|Updating|Downgrading|Reinstalling)/) verb = "replace"
      next
    }
    /^Transaction Summary/ { exit }
    $1 == "replacing" { print "replace", $2, $3; next }
    verb && /^ +[^ ]/ && NF >= 3 { print verb, $1, $3 }'
}
# coming: the names and versions of the plan's new packages
coming() { planned | sed -n 's/^new //p'; }
# needed: dnf and yum take what fits by themselves
needed() { :; }
# harm: what the plan removes, replaces beside the named packages, or boots
harm() {
  planned | awk -v named=" $named " '
    function tell(what) { printf "%s%s", comma, what; comma = ", " }
    $1 == "remove" || ($1 == "replace" && !index(named, " " $2 " ")) { tell($1 " " $2) }
    # Also kernel-64k, kernel-rt, kernel-uek and the like; headers and tools are not booted.
    $2 ~ /-(devel|devel-matched|headers|doc|macros|abi-[a-z]+)$/ || $2 ~ /-tools(-|$)/ { next }
    $1 == "new" && $2 ~ /^kernel(-|$)/ { tell("install the kernel " $3) }'
}
