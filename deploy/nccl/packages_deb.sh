# Leave the system's libnccl packages at one version, and held there: apt.
# Variables: manager, names, version (2.18.1-1+cuda12.1), url and key of a repository (empty: the system's
# own; key is text, or unsigned), held (names that may be on hold: all others are an
# administrator's), override (yes: those as well), run, backups.
# Needs: writers closed place sent lock proxy in_use containers package_locks no_answer holds noted transaction_deb transaction
# Disturbs: libraries
# shellcheck shell=sh disable=SC2034,SC2154
set -f
umask 022
note packages
fail() { echo "gpu-node: libnccl: $1" >&2; exit 1; }
named=$names
options='--allow-downgrades --allow-change-held-packages --reinstall'
source=/etc/apt/sources.list.d/gpu-node-cuda.sources
trusted=/etc/apt/keyrings/gpu-node-cuda.asc
described() {
  printf 'Enabled: %s\nTypes: deb\nURIs: %s\nSuites: /\n' "$1" "$url"
  if [ "$key" = unsigned ]; then echo 'Trusted: yes'; else echo "Signed-By: $2"; fi
}
# Only for this command, and separate from the lists of the system; its key, too, as nothing is written yet.
from_url() {
  echo "$key" >"$work/key.asc" && mkdir "$work/parts" &&
    described yes "$work/key.asc" >"$work/parts/gpu-node-cuda.sources" ||
    fail "no room in /var/tmp; no package was changed"
  first=" (with 'Enabled: yes' in $source)"
  only="-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$work/parts"
  aside
}
# Not enabled: its other packages would replace the driver with the next update.
keep_url() {
  [ "$key" = unsigned ] || { echo "$key" | put "$trusted"; } || fail "$trusted cannot be written"
  described no "$trusted" | put "$source" || fail "$source cannot be written"
}
replace_all() {
  scratch
  [ -z "$url" ] || from_url
  begin
  set --
  for name in $names; do set -- "$@" "$name=$version"; done
  has=$(offered "${names%% *}" | sort -u | tr '\n' ' ')
  case " $has" in
    (*" $version "*) ;;
    (*)
      why=$(echo "$fetched" | grep -E 'NO_PUBKEY|GPG error|Could not|Unable to connect|Failed to fetch' | head -n 1 | cut -c 1-300)
      why=${why:-$(reason "$fetched")}
      fail "$(no_answer "$fetched")no ${names%% *} $version in ${url:-the repositories of this node}: ${why:+$why; }there is: ${has:-none}; no package was changed"
      ;;
  esac
  [ "$look" = yes ] || [ -z "$url" ] || keep_url
  transact "$@" || fail "$(no_answer "$output")apt refuses: $(reason "$output")$unchanged; run again"
}
is_whole() {
  for name in $names; do
    [ "$(installed "$name")" = "$version" ] || return 1
    # dpkg stores no sizes, and counts a package whose files are missing as installed.
    dpkg-query -L "$name" | while IFS= read -r path; do [ -e "$path" ] || echo "$path"; done |
      grep -q . && return 1
  done
  return 0
}
# shellcheck disable=SC2086 # a name a word
for name in $(apt-mark showhold $names 2>/dev/null); do
  case " $held " in (*" ${name%:*} "*) continue ;; esac
  [ "$override" = yes ] || fail "$name is on hold since the plan was made; no package was changed, run again"
done
set --
for name in $names; do set -- "$@" "$name" "$version"; done
note_holds "$@"
is_whole || replace_all
# shellcheck disable=SC2086 # a name a word
hold $names || fail "apt-mark cannot hold them: $output"
