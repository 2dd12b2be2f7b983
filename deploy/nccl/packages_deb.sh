# Leave the system's libnccl packages at one version, and held there: apt.
# Variables: names, version (2.18.1-1+cuda12.1), url and key of a repository (empty: the system's
# own; key is text, or unsigned), held (names that may be on hold: all others are an
# administrator's), override (yes: those as well), run, backups.
# Needs: writers closed place sent lock proxy in_use containers package_locks no_answer holds noted
# Disturbs: libraries
# shellcheck shell=sh disable=SC2154,SC2086,SC2015
set -u
LC_ALL=C; export LC_ALL
DEBIAN_FRONTEND=noninteractive; export DEBIAN_FRONTEND
umask 022
note packages
fail() { echo "gpu-node: libnccl: $1" >&2; exit 1; }
# apt says why in lines that begin with E: or W:, and before them which package needs what.
reason() {
  echo "$1" | awk '
    / (Depends|PreDepends|Breaks|Conflicts): / && !needs { needs = $0 "; " }
    /^ ?(E|W|Err)[: ]/ { why = $0 }
    END { gsub(/  +/, "", needs); print substr(needs why, 1, 300) }'
}
source=/etc/apt/sources.list.d/gpu-node-cuda.sources
trusted=/etc/apt/keyrings/gpu-node-cuda.asc
only=
described() {
  printf 'Enabled: %s\nTypes: deb\nURIs: %s\nSuites: /\n' "$1" "$url"
  if [ "$key" = unsigned ]; then echo 'Trusted: yes'; else echo "Signed-By: $trusted"; fi
}

install() {
  work=$(mktemp -d /var/tmp/gpu-node-packages.$$.XXXXXX) || fail "no room in /var/tmp; nothing was changed"
  if [ -n "$url" ]; then
    [ "$key" = unsigned ] || { echo "$key" | put "$trusted"; } || fail "$trusted cannot be written"
    # Not enabled: its other packages would replace the driver with the next update.
    described no | put "$source" || fail "$source cannot be written"
    # Only for this command, and separate from the lists of the system; the user of apt reads it.
    chmod 755 "$work" && mkdir -p "$work/lists/partial" "$work/parts" &&
      described yes >"$work/parts/gpu-node-cuda.sources" || fail "no room in /var/tmp; no package was changed"
    only="-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$work/parts -o Dir::State::lists=$work/lists"
  fi
  # Finish what a killed run or update left incomplete.
  if [ -n "$(dpkg --audit 2>/dev/null)" ]; then
    refuse_reload 'packages that are half configured'
    patient dpkg --configure -a ||
      fail "dpkg cannot finish what was begun ('dpkg --configure -a'): $(echo "$output" | head -n 1)"
  fi
  patient apt-get -q $only update || :
  fetched=$output
  set --
  for name in $names; do set -- "$@" "$name=$version"; done
  has=$(apt-cache $only madison ${names%% *} 2>/dev/null | awk '{ print $3 }' | sort -u | tr '\n' ' ')
  case " $has" in
    (*" $version "*) ;;
    (*)
      why=$(echo "$fetched" | grep -E 'NO_PUBKEY|GPG error|Could not|Unable to connect|Failed to fetch' | head -n 1 | cut -c 1-300)
      why=${why:-$(reason "$fetched")}
      fail "$(no_answer "$fetched")no ${names%% *} $version in ${url:-the repositories of this node}: ${why:+$why; }there is: ${has:-none}; no package was changed"
      ;;
  esac
  # One transaction, in which no other package may be removed.
  patient apt-get -q -y $only --no-install-recommends --no-remove --allow-downgrades \
    --allow-change-held-packages --reinstall -o Dpkg::Options::=--force-confold install "$@" ||
    fail "$(no_answer "$output")apt refuses: $(reason "$output"); run again"
}
installed() {
  for name in $names; do
    [ "$(dpkg-query -W -f '${Version} ${db:Status-Status}' "$name" 2>/dev/null)" = "$version installed" ] ||
      return 1
    # dpkg stores no sizes, and counts a package whose files are missing as installed.
    dpkg-query -L "$name" | while IFS= read -r path; do [ -e "$path" ] || echo "$path"; done |
      grep -q . && return 1
  done
  return 0
}
for name in $(apt-mark showhold $names 2>/dev/null); do
  case " $held " in (*" ${name%:*} "*) continue ;; esac
  [ "$override" = yes ] || fail "$name is on hold since the plan was made; no package was changed, run again"
done
set --
for name in $names; do set -- "$@" "$name" "$version"; done
note_holds "$@"
installed || install
patient apt-mark hold $names || fail "apt-mark cannot hold them: $output"
