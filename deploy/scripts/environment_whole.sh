# Put a copied Python environment in its place, all at once, and see whether its Python runs there.
# Variables: path, partial (where it was copied to).
# shellcheck shell=sh disable=SC2154,SC2015
set -u
LC_ALL=C; export LC_ALL
fail() { echo "gpu-node: $path: $1" >&2; exit 1; }
[ ! -e "$path" ] && [ ! -L "$path" ] || fail "it has come meanwhile; the copy is at $partial"
mv -- "$partial" "$path" || fail "the copy at $partial cannot be put there"
python=$path/bin/python3
[ -x "$python" ] || python=$path/bin/python
runs() {
  if timeout --version >/dev/null 2>&1; then timeout -s KILL 60 "$python" -I -B -c ''; else "$python" -I -B -c ''; fi
}
said=$(runs 2>&1 </dev/null) && exit 0
code=$?
# Half of it is never to be taken for one, should this be cut off.
mv -- "$path" "$partial" && rm -rf -- "$partial"
fail "its Python does not run on this node (exit $code): ${said:-no word}; an environment of venv needs the Python that it was made with (${python##*/}) here; the copy was taken away again"
