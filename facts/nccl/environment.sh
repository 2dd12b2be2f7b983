# Prints `absent` and ends where $prefix does not exist. A folder below a closed one only seems to
# be missing, and so does one behind a dangling link.
if [ ! -e "$prefix" ] && [ ! -L "$prefix" ]; then
  case $(ls -ld "$prefix/" 2>&1) in
    (*'Permission denied'*) echo "$prefix is closed"; exit 1 ;;
  esac
  echo absent; exit 0
fi
# Runs the questions in the environment's Python, with the variables of a launcher's shell, as the
# account that owns the environment; with $named, as `runs` of discovered.sh has it. Where they need a
# newer Python, such as for the 2.7 of CentOS 7, which has no -I, it prints `old<tab>VERSION` last.
python=$prefix/bin/python3
[ -x "$python" ] || python=$prefix/bin/python
account=$(environment_owner "$prefix" "$python") || exit 1
[ -z "${named-}" ] || account=$(runs "$account") || { echo "$account"; exit 1; }
as_account "$account" env gn_preload="$gn_preload" LD_LIBRARY_PATH="${LD_LIBRARY_PATH-}" \
  PYTHONPATH="${PYTHONPATH-}" PYTHONNOUSERSITE="${PYTHONNOUSERSITE-}" sh -c '
    python=$1/bin/python3
    [ -x "$python" ] || python=$1/bin/python
    shift
    LD_PRELOAD=$gn_preload exec "$python" -I -B -c "$@"' sh "$prefix" "$gn_asked" ${deep:+"$deep"} || {
  code=$? old=
  case $code in ([12]) old=$(as_account "$account" "$python" -E -s -S -B -c \
    'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null | tail -n 1) ;; esac
  case $old in (2.[0-9] | 3.[0-5]) printf '\nold\t%s\n' "$old" ;; (*) exit "$code" ;; esac
}
