# PATH is that of a launcher's non-interactive shell: the probe runs in such a shell.
eval "$gn_owner"
echo "$PATH"
# Longer than the limit of the section: a cmake that hangs makes it unreadable.
# shellcheck disable=SC2034
owner_seconds=6
me=${gn_me:-$(id -un)}
IFS=:; set -f
for d in $PATH; do
  p=${d:-.}/cmake
  [ -f "$p" ] && [ -x "$p" ] || continue
  printf '%s\n%s\n' "$p" "$(readlink -f "$p" || echo "$p")"
  case $p in (/*) ;; (*) p=$PWD/$p ;; esac
  account=$me
  [ "$account" != root ] || account=$(owner_of "$p") || exit 1
  way=$PATH
  [ "$account" != root ] || way=/usr/local/bin:/usr/bin:/bin
  output=$(unset IFS; as_account "$account" env PATH="$way" \
    LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}" "$p" --version 2>&1 | head -n 1)
  printf '%s\n' "${output:-nothing}"
done
set +f
for p in cmake cpack ctest ccmake cmake-gui; do
  p=@link_dir@/$p
  [ -e "$p" ] || [ -L "$p" ] || continue
  to=
  [ ! -L "$p" ] || to=$(readlink "$p")
  case $to in (/opt/cmake-*/bin/"${p##*/}") continue ;; esac
  printf 'taken\t%s\n' "$p"
done
for p in /opt/cmake-*; do
  [ ! -e "$p" ] || printf 'release\t%s\n' "$p"
done
