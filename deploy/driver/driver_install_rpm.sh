# Install the driver's packages at exactly the version wanted, replacing no other package: yum or dnf.
# Variables: manager, packages (names), version (535.154.05, or a branch: what is there of it, or else
# its newest), hold (yes: at that version no update replaces them), run, backups.
# Needs: writers closed place lock proxy in_use containers package_locks no_answer holds another_driver transaction_rpm noted
# Disturbs: libraries
# shellcheck shell=sh disable=SC2154,SC2086
set -uf
LC_ALL=C; export LC_ALL
umask 022
note packages
fail() { echo "gpu-node: driver: $1" >&2; exit 1; }
is_wanted() { case ${1#*:} in ("$version" | "$version"[!0-9]*) return 0 ;; esac; return 1; }
version_of() { rpm -q --qf '%{VERSION}-%{RELEASE}\n' "$1" 2>/dev/null | head -n 1; }
is_whole() { rpm -q "$1" >/dev/null 2>&1 && is_wanted "$(version_of "$1")"; }
is_begun() {
  for name in $packages; do
    ! rpm -q "$name" >/dev/null 2>&1 || return 0
  done
  return 1
}
if ! is_begun; then
  remains=$(another_driver)
  [ -z "$remains" ] || fail "another driver is installed ($remains): remove it first, by the tool that installed it; nothing was changed"
fi
# of_branch: the installed packages of a branch give the exact version of the missing ones
of_branch() {
  for name in $packages; do
    is_whole "$name" || continue
    found=$(version_of "$name")
    found=${found%%-*}
    [ "$found" = "${here:-$found}" ] ||
      fail "$of is here at $here, and $name at $found: make them one version first; nothing was changed"
    here=$found
    of=${of:-$name}
  done
  version=${here:-$version}
}
refuse_reload "the driver's packages"
of='' here=''
case $version in (*.*.*) ;; (*) of_branch ;; esac
# The wanted version has no release, or is only a branch.
case $version in (*.*.*) rest='-*' ;; (*) rest='.*' ;; esac
set --
for name in $packages; do
  is_whole "$name" || set -- "$@" "$name-$version$rest"
done
if [ "$#" -gt 0 ]; then
  simulate "$@" || {
    has=
    for name in $packages; do
      has="$has$($manager -q --showduplicates list available "$name" 2>/dev/null </dev/null |
        awk -v name="$name" 'index($1, name ".") == 1 { printf "%s %s, ", name, $2 }')"
    done
    fail "$(no_answer "$plan")no such packages of $version${of:+ (as $of is here)} in the repositories of this node: $(reason "$plan"); there is: ${has:-none, }nothing was changed$(barred $packages)"
  }
  why=$(harm)
  [ -z "$why" ] || fail "$manager would $why: that is left to you; nothing was changed"
  # For a branch: the newest version of the first package; all must have the same version.
  comes=$(rows | awk -v names=" $packages " '$3 ~ /[0-9]-/ && index(names, " " $1 " ") { print $3; exit }')
  comes=${comes#*:}
  case $version in (*.*.*) ;; (*) [ -z "$comes" ] || version=${comes%%-*} ;; esac
  # Dependencies must have the same version.
  other=$(rows | awk '/^ +[^ ]/ && $3 ~ /[0-9]-/ { print $1, $3 }' | while read -r name comes; do
    case ${comes#*:} in ("${version%%.*}".*) is_wanted "$comes" || echo "$name $comes" ;; esac
  done | head -n 1)
  case " $packages " in (*" ${other%% *} "*)
    [ -z "$other" ] || fail "$manager would install $other beside $version: want one version in full; nothing was changed" ;;
  esac
  [ -z "$other" ] || fail "$manager would install $other with them: name that package in driver.packages, too; nothing was changed"
  patient $manager -y $careful install "$@" || : # what is lacking is named below
  for name in $packages; do
    is_whole "$name" || fail "$(no_answer "$output")$manager cannot install $name $version: $(reason "$output"); run again"
  done
fi
[ "$hold" = yes ] || exit 0
set --
for name in $packages; do set -- "$@" "$name" "$(version_of "$name")"; done
note_holds "$@"
set --
for name in $packages; do set -- "$@" "$name-$(version_of "$name")"; done
if ! patient $manager -q versionlock list; then
  case $($manager --version 2>/dev/null | head -n 1) in
    (3.*) plugin=yum-plugin-versionlock ;;
    (*) plugin='dnf-command(versionlock)' ;;
  esac
  patient $manager -y -q install "$plugin" || :
fi
# It works without this, until the next update; the report shows that.
patient $manager -q versionlock add "$@" ||
  echo "gpu-node: driver: versionlock cannot hold $*: $(echo "$output" | tail -n 1)"
