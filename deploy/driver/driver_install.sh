# Install the driver's packages at exactly the version wanted, replacing no other package.
# Variables: manager, packages (names), version (535.154.05, or a branch: what is there of it, or else its
# newest), hold (yes: at that version no update replaces them), run, backups.
# Needs: writers closed place sent lock proxy in_use containers package_locks no_answer holds noted transaction_deb transaction_rpm transaction
# Disturbs: libraries
# shellcheck shell=sh disable=SC2154
set -f
umask 022
note packages
fail() { echo "gpu-node: driver: $1" >&2; exit 1; }
# another_driver: prints where it is, or that it is loaded; nothing if there is none
another_driver() {
  ldconfig=$(command -v ldconfig || echo /sbin/ldconfig)
  remains=$("$ldconfig" -p 2>/dev/null | sed -n 's/^[[:space:]]*libnvidia-ml\.so\.1 .*=> //p' | head -n 1)
  [ ! -d /sys/module/nvidia ] || remains="${remains:+$remains, }a loaded module"
  echo "$remains"
}
begun=
for name in $packages; do ! is_begun "$name" || begun=yes; done
if [ -z "$begun" ]; then
  remains=$(another_driver)
  [ -z "$remains" ] || fail "another driver is installed ($remains): remove it first, by the tool that installed it; no package was changed"
fi
# bare VERSION: without its epoch and its revision
bare() { found=${1#*:}; echo "${found%-*}"; }
is_full() { case $version in (*.*.*) ;; (*) false ;; esac; }
# of_branch: the installed packages of a branch give the exact version of the missing ones
of_branch() {
  for name in $packages; do
    found=$(unpacked "$name")
    is_wanted "$found" || continue
    found=$(bare "$found")
    [ "$found" = "${here:-$found}" ] ||
      fail "$of is here at $here, and $name at $found: make them one version first; no package was changed"
    here=$found
    of=${of:-$name}
  done
  version=${here:-$version}
}
# none WHAT [NAME]: fail, with what there is of all packages or of one
none() {
  has=
  for name in ${2:-$packages}; do
    for each in $(offered "$name"); do has="$has${has:+, }$name $each"; done
  done
  plan="$plan
$fetched"
  why=$(reason "$plan")
  fail "$(no_answer "$plan")$1 $version${of:+ (as $of is here)}${2:+ in the repositories of this node}: ${why:+$why; }there is: ${has:-none}; no package was changed$(barred "$packages")"
}
refuse_reload "the driver's packages"
of='' here='' named='' loose='' plan=''
begin
is_full || of_branch
set --
for name in $packages; do
  ! is_wanted "$(installed "$name")" || continue
  pin "$name" || none "no $name" "$name"
  # For a branch: the newest version of the first package; all must have the same version.
  is_full || case $pinned in (*=*) version=$(bare "${pinned#*=}") ;; esac
  # One of another version is not replaced.
  [ -n "$(installed "$name")" ] || named=${named:+$named }$name
  set -- "$@" "$pinned"
done
# Dependencies would be the newest of the branch, and match the named packages only by chance.
more=$#
while [ "$more" != 0 ]; do
  refused=
  simulate "$@" || refused=yes
  comes=$(coming | awk -v named=" $named " 'index(named, " " $1 " ") { print $2; exit }')
  is_full || [ -z "$comes" ] || version=$(bare "$comes")
  more=$(coming | while read -r name comes; do
    case " $loose " in (*" $name "*) continue ;; esac
    case ${comes#*:} in ("${version%%.*}".*) is_wanted "$comes" || echo "$name=$comes" ;; esac
  done)
  if [ -n "$refused" ]; then
    # Debian's packages need exactly their version of others, of which apt would take the newest.
    more=$(needed | while read -r name comes asker; do
      # Another version of a named package is needed by a package that is too new itself.
      is_wanted "$comes" || case " $named " in (*" $name "*) name=$asker ;; (*) continue ;; esac
      case " $named " in (*" $name "*) continue ;; esac
      echo "$name=$comes"
    done | sort -u)
    [ -n "$more" ] || none "${manager%-get} refuses"
  fi
  for each in $more; do
    name=${each%%=*}
    case " $named " in (*" $name "*)
      fail "${manager%-get} would install $name ${each#*=} beside $version: want one version in full; no package was changed" ;;
    esac
    if ! pin "$name"; then
      # Debian has these in other versions than the driver, with which they work.
      case $name in
        (nvidia-modprobe | nvidia-persistenced | nvidia-settings | nvidia-xconfig) ;;
        (*) none "no $name" "$name" ;;
      esac
      loose="$loose $name"
      continue
    fi
    named="$named $name"
    set -- "$@" "$pinned"
  done
  more=${more:-0}
done
if [ "$#" != 0 ]; then
  harmless "$@"
  install "$@" || : # what is lacking is named below
  for name in $packages; do
    found=$(unpacked "$name")
    ! is_wanted "$found" || continue
    why=$(reason "$output")
    fail "$(no_answer "$output")${manager%-get} cannot install $name $version: ${why:-it gives no reason, and has left ${found:-nothing}}; run again"
  done
fi
[ "$hold" = yes ] || exit 0
for name in $named; do case " $packages " in (*" $name "*) ;; (*) packages="$packages $name" ;; esac; done
set --
for name in $packages; do set -- "$@" "$name" "$(unpacked "$name")"; done
note_holds "$@"
# It works without this, until the next update; the report shows that.
# shellcheck disable=SC2086 # words
hold $packages || echo "gpu-node: driver: they cannot be held: $(echo "$output" | tail -n 1)"
