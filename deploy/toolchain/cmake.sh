# Install a cmake release into a separate prefix and switch to it by symlinks; older ones stay.
# Variables: version, url, sha256, pushed (a tarball for this run alone, or empty), links, backups,
# owner (sh of facts/probe/owner.py).
# Needs: writers closed place sent lock proxy noted
# Given: owner
# shellcheck shell=sh disable=SC2154,SC2015
umask 022
eval "$owner"
prefix=/opt/cmake-$version
work=/opt/.cmake-$version.gpu-node # sent.sh removes it at the end
fail() { echo "gpu-node: cmake: $1; the old cmake is still in use" >&2; exit 1; }
# stderr, too: a cmake without its modules prints an error there before its version.
answers() {
  [ -x "$1" ] || return 1
  # A program that another account may change is not run here, and is replaced.
  case $(owner_of "$1" 2>/dev/null) in (root | "$(id -un)") ;; (*) return 1 ;; esac
  "$1" --version 2>&1 | head -n 1 | grep -Fqx "cmake version $version"
}
room() {
  free=$(timeout -s KILL 5 df -Pk /opt 2>/dev/null | awk 'END { if ($4 != "") printf "%d", $4 / 1024 }')
  echo "${free:-an unknown number of} MB free"
}

# If others may write there, they could redirect root, and change what all users run.
for each in /opt "$links"; do trusted "$each" || fail "nothing is installed in $each: $why"; done
# Before the download: is the switch possible at all?
mkdir -p "$links" && rm -f "$links/.gpu-node-link" && ln -s / "$links/.gpu-node-link" ||
  fail "$links cannot be written"
rm -f "$links/.gpu-node-link"

if ! answers "$prefix/bin/cmake"; then
  note cmake "$version" "$links"
  # Files of a killed run; only under this name, which nothing else uses.
  rm -rf "$work"
  mkdir "$work" || fail "/opt cannot be written ($(room))"
  tarball=${pushed:-$work/release.tar.gz}
  if [ -z "$pushed" ]; then
    if command -v curl >/dev/null 2>&1; then
      output=$(curl -fsSL --retry 2 --connect-timeout 20 --speed-limit 1000 --speed-time 60 -o "$tarball" "$url" 2>&1)
    elif command -v wget >/dev/null 2>&1; then
      output=$(wget -q -T 20 -t 3 -O "$tarball" "$url" 2>&1)
    else
      fail "neither curl nor wget is here; set fetch: controller in the inventory"
    fi || fail "$url cannot be fetched: ${output:-no reason given} (/opt has $(room))"
  fi
  sum=$(sha256sum <"$tarball" | cut -d' ' -f1)
  [ "$sum" = "$sha256" ] || fail "the tarball has sha256 $sum, the inventory wants $sha256"
  mkdir "$work/tree" || fail "/opt cannot be written ($(room))"
  output=$(tar -xzof "$tarball" -C "$work/tree" 2>&1 && chmod -R go-w "$work/tree" 2>&1) ||
    fail "unpacking failed: $(echo "$output" | tail -n 1) (/opt has $(room))"
  set -- "$work/tree"/*/bin/cmake
  [ $# -eq 1 ] && answers "$1" || fail "the tarball holds no cmake $version for this machine"
  tree=${1%/bin/cmake}
  chown -R 0:0 "$tree" || fail "the files cannot be given to root"
  if [ -e "$prefix" ] || [ -L "$prefix" ]; then
    closed "${backups%/*}" "$backups/opt" || fail "$prefix cannot be moved aside: $why"
    mv "$prefix" "$backups/opt/" || fail "$prefix cannot be moved aside"
    echo "gpu-node: cmake: $prefix is moved to $backups$prefix: it has no cmake $version that runs"
  fi
  all_durable "$tree"
  renamed "$tree" "$prefix" || fail "$prefix cannot be made"
fi

# Either all links are set, or none.
for program in "$prefix/bin"/*; do
  link=$links/${program##*/}
  { [ -L "$link" ] || [ ! -d "$link" ]; } || fail "$link is a directory"
done
# That of cmake last: until it is set, the next run does what a killed run has left.
set --
for program in "$prefix/bin"/*; do
  [ "${program##*/}" = cmake ] || set -- "$@" "$program"
done
for program in "$@" "$prefix/bin/cmake"; do
  link=$links/${program##*/}
  [ "$(readlink "$link")" != "$program" ] || continue
  note cmake "$version" "$links"
  if [ -e "$link" ] || [ -L "$link" ]; then
    closed "${backups%/*}" "$backups$links" || fail "$link cannot be kept: $why"
    cp -pP "$link" "$backups$links/" || fail "$link cannot be kept"
    case $(readlink "$link") in
      (/opt/cmake-*/bin/"${program##*/}") ;;
      (*) echo "gpu-node: cmake: $link is moved to $backups$link" ;;
    esac
  fi
  ln -s "$program" "$links/.gpu-node-link" && renamed "$links/.gpu-node-link" "$link" ||
    fail "$link cannot be set"
done
answers "$links/cmake" || fail "$links/cmake does not answer as $version"
