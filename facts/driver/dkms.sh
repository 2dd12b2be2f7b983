# Lists the nvidia sources for dkms, and the builds of dkms. Sources of nvidia-fs are there too:
# they are another module. `dkms status` starts hundreds of processes: where its files have the usual
# form, they are read in its place.
# shellcheck disable=SC3013
PATH=$PATH:/usr/sbin:/sbin; export PATH
tree=/var/lib/dkms
set --
for f in /usr/src/nvidia*-[0-9]*/dkms.conf "$tree"/nvidia*/*/source/dkms.conf; do
  [ ! -f "$f" ] || [ ! -r "$f" ] || set -- "$@" "$f"
done
# Prints `source NAME VERSION`, and `names MODULE VERSION NAME ...` for the modules of a source that
# was added to dkms; without a NAME they are unknown.
confs=
[ $# = 0 ] || confs=$(awk -v tree="$tree/" '
  function flush(  i, words) {
    if (file == "") return
    if (index(file, tree) != 1) {
      if (is_nvidia) print "source " package " " version
    } else {
      split(substr(file, length(tree) + 1), words, "/")
      printf "names %s %s", words[1], words[2]
      for (i = 0; i < 64 && !odd; i++) if (i in names) printf " %s", names[i]
      print ""
    }
  }
  function value(text) { sub(/^[^=]*=/, "", text); gsub(/["\047 ]/, "", text); return text }
  FNR == 1 {
    flush(); file = FILENAME; package = version = ""; has_name = has_version = is_nvidia = odd = 0
    split("", names); split("", dest)
  }
  /^BUILT_MODULE_NAME\[0\]=.?nvidia(-current)?.?[ \t\r]*$/ { is_nvidia = 1 }
  /^PACKAGE_NAME=/ && !has_name { package = value($0); has_name = 1 }
  /^PACKAGE_VERSION=/ && !has_version { version = value($0); has_version = 1 }
  /(BUILT|DEST)_MODULE_NAME/ && !/^[ \t]*#/ {
    if (match($0, /^(BUILT|DEST)_MODULE_NAME\[[0-9]+\]=["\047]?[A-Za-z0-9_-]+["\047]?[ \t]*$/)) {
      i = $0; sub(/^[^[]*\[/, "", i); sub(/\].*/, "", i); i += 0
      if (/^DEST/) { names[i] = value($0); dest[i] } else if (!(i in dest)) names[i] = value($0)
    } else odd = 1
  }
  END { flush() }' "$@") || exit 1
case $confs in (*source*) printf '%s\n' "$confs" | grep '^source ' ;; esac
command -v dkms >/dev/null 2>&1 || exit 0
echo present
# built FOLDER NAMES: whether a folder has each of these modules, with blanks between them.
built() {
  [ -n "$2" ] || return 1
  left=$2
  while [ -n "$left" ]; do
    for f in "$1/${left%% *}".ko*; do [ -e "$f" ] || return 1; done
    case $left in (*' '*) left=${left#* } ;; (*) left= ;; esac
  done
}
by_files() {
  [ -d "$tree" ] || return 1
  ! grep -Eqs '^[[:space:]]*(dkms|install|source)_tree=' /etc/dkms/framework.conf \
    /etc/dkms/framework.conf.d/*.conf || return 1
  for f in /lib/modules/*/weak-updates/nvidia*; do [ ! -e "$f" ] || return 1; done
  status='' newline='
'
  for added in "$tree"/nvidia*/*; do
    version=${added##*/} module=${added%/*}
    module=${module##*/}
    case $module in (*[!-a-z]*) continue ;; esac
    [ -L "$added/source" ] || [ -d "$added/source" ] || continue
    names=
    case $newline$confs in (*"${newline}names $module $version "*)
      names=${confs#*"names $module $version "}
      names=${names%%"$newline"*} ;;
    esac
    has=
    for kernel in "$added"/[0-9]*/*; do
      [ -d "$kernel/module" ] || continue
      built "$kernel/module" "$names" || return 1
      has=${kernel#"$added/"} state=built
      link=$tree/$module/kernel-${has%/*}-${has##*/}
      [ ! -L "$link" ] || [ ! "$link" -ef "$kernel" ] || state=installed
      status="$status${newline}status $module/$version, ${has%/*}, ${has##*/}: $state"
    done
    [ -n "$has" ] || status="$status${newline}status $module/$version: added"
  done
  [ -z "$status" ] || printf '%s\n' "${status#?}"
}
by_files || dkms status 2>/dev/null | sed -n '/^nvidia[-a-z]*[,\/]/s/^/status /p'
# A log in the folder of a build is what a failed one leaves.
for f in "$tree"/nvidia*/*/build/make.log; do
  [ -f "$f" ] && [ -r "$f" ] || continue
  head -c 4000000 "$f" | awk '
    NR == 1 && / for kernel / {
      kernel = $0; sub(/.* for kernel /, "", kernel); sub(/ .*/, "", kernel)
      version = $0; sub(/ for kernel .*/, "", version); sub(/.*-/, "", version)
      next
    }
    kernel == "" { exit }
    /: (fatal )?error: |^ERROR: |undefined!/ {
      print "failed " version " " kernel " " substr($0, 1, 300); exit
    }'
done
exit 0
