# Install the driver's packages at exactly the version wanted, replacing no other package: apt.
# Variables: packages (names), version (535.154.05, or a branch: what is there of it, or else its
# newest), hold (yes: at that version no update replaces them), run, backups.
# Needs: writers closed place lock proxy in_use containers package_locks no_answer holds another_driver transaction_deb noted
# Disturbs: libraries
# shellcheck shell=sh disable=SC2154,SC2086,SC2015
set -uf
LC_ALL=C; export LC_ALL
DEBIAN_FRONTEND=noninteractive; export DEBIAN_FRONTEND
umask 022
note packages
fail() { echo "gpu-node: driver: $1" >&2; exit 1; }
# 535.154.05-0ubuntu1 is 535.154.05, and of branch 535; 1: before it is an epoch.
is_wanted() { case ${1#*:} in ("$version" | "$version"[!0-9]*) return 0 ;; esac; return 1; }
status() { dpkg-query -W -f '${db:Status-Status} ${Version}' "$1" 2>/dev/null; }
is_whole() { found=$(status "$1") && [ "${found%% *}" = installed ] && is_wanted "${found#* }"; }
# A module that cannot be compiled leaves its package half configured: the build reports that.
is_unpacked() {
  found=$(status "$1") || return 1
  case $found in ('installed '* | 'half-configured '* | 'unpacked '* | 'triggers-'*) is_wanted "${found#* }" ;; (*) false ;; esac
}
is_begun() {
  for name in $packages; do
    case $(status "$name") in ('' | 'not-installed '* | 'config-files '*) ;; (*) return 0 ;; esac
  done
  return 1
}
if ! is_begun; then
  remains=$(another_driver)
  [ -z "$remains" ] || fail "another driver is installed ($remains): remove it first, by the tool that installed it; nothing was changed"
fi

offered() { apt-cache madison "$1" 2>/dev/null | awk '{ print $3 }'; }
# exact NAME: the newest available package of the wanted version
exact() {
  for each in $(offered "$1"); do
    ! is_wanted "$each" || { echo "$each"; return 0; }
  done
  return 1
}
none() {
  why=$(echo "$fetched" | grep -E 'NO_PUBKEY|GPG error|Could not|Unable to connect|Failed to fetch' | head -n 1 | cut -c 1-300)
  has=$(offered "$1" | sort -u | tr '\n' ' ')
  fail "$(no_answer "$fetched")no $1 $version${of:+ (as $of is here)} in the repositories of this node: ${why:+$why; }there is: ${has:-none }; nothing was changed"
}
# of_branch: the installed packages of a branch give the exact version of the missing ones
of_branch() {
  for name in $packages; do
    is_unpacked "$name" || continue
    found=${found#* }
    found=${found#*:}
    found=${found%-*}
    [ "$found" = "${here:-$found}" ] ||
      fail "$of is here at $here, and $name at $found: make them one version first; nothing was changed"
    here=$found
    of=${of:-$name}
  done
  version=${here:-$version}
}
refuse_reload "the driver's packages"
of='' here=''
finish_what_was_begun
case $version in (*.*.*) ;; (*) of_branch ;; esac
patient apt-get -q update || :
fetched=$output
set --
for name in $packages; do
  ! is_whole "$name" || continue
  found=$(exact "$name") || none "$name"
  # For a branch: the newest version of the first package; all must have the same version.
  is_branch=${version%%[!0-9]*}
  [ "$is_branch" != "$version" ] || { version=${found#*:}; version=${version%-*}; }
  set -- "$@" "$name=$found"
done
# Dependencies would be the newest of the branch, and match the named packages only by chance.
rounds=0
while [ "$#" -gt 0 ]; do
  simulate "$@" || fail "$(no_answer "$fetched")apt refuses: $(reason "$plan"); nothing was changed"
  more=$(echo "$plan" | sed -n 's/^Inst \([^ :]*\)[^ ]* (\([^ ]*\) .*/\1 \2/p' | while read -r name comes; do
    case ${comes#*:} in ("${version%%.*}".*) is_wanted "$comes" || echo "$name" ;; esac
  done)
  [ -n "$more" ] && [ "$rounds" -lt 20 ] || break
  rounds=$((rounds + 1))
  for name in $more; do
    found=$(exact "$name") || none "$name"
    set -- "$@" "$name=$found"
  done
done
if [ "$#" -gt 0 ]; then
  why=$(harm)
  [ -z "$why" ] || fail "apt would $why: that is left to you; nothing was changed"
  patient apt-get -q -y $careful --no-remove install "$@" || : # what is lacking is named below
  for name in $packages; do
    is_unpacked "$name" && continue
    why=$(reason "$output") found=$(status "$name")
    fail "$(no_answer "$output")apt cannot install $name: ${why:-it gives no reason, and has left ${found:-nothing}}; run again"
  done
fi
[ "$hold" = yes ] || exit 0
for each; do packages="$packages ${each%%=*}"; done
set --
for name in $packages; do
  found=$(status "$name")
  set -- "$@" "$name" "${found#* }"
done
note_holds "$@"
patient apt-mark hold $packages || fail "apt-mark cannot hold them: $output"
