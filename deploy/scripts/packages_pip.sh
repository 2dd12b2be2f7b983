# Install packages of a Python environment at exactly the pinned versions, and change no other one.
# Variables: prefix (the environment), pins (as pip is asked for them, with blanks between).
# shellcheck shell=sh disable=SC2154,SC2086
set -uf
LC_ALL=C; export LC_ALL
umask 022
PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
export PIP_ROOT_USER_ACTION PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_INPUT
work=
trap '[ -z "$work" ] || rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
fail() { echo "gpu-node: $prefix: $1" >&2; exit 1; }
# What pip says first is the reason; after it comes advice.
reason() { echo "$1" | awk '/^ERROR: / && !said { said = $0 } { line = $0 } END { print said ? said : line }'; }

python=$prefix/bin/python
[ -x "$python" ] || python=$prefix/bin/python3
[ -x "$python" ] || fail "no Python is there; nothing was changed"
work=$(mktemp -d /var/tmp/gpu-node-pip.XXXXXX) || fail "no room in /var/tmp; nothing was changed"
# pip compares names without regard to case, -, _ and .
plain() { tr 'A-Z_.' 'a-z--' | tr -s '-'; }
listed=$("$python" -m pip list --format=freeze 2>"$work/said" </dev/null) ||
  fail "pip cannot list what is there: $(tail -n 1 "$work/said"); nothing was changed"
echo "$listed" | grep -E '^[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.!+_-]*$' | while IFS= read -r line; do
  name=$(echo "${line%%==*}" | plain)
  changes=no
  for pin in $pins; do [ "$(echo "${pin%%==*}" | plain)" != "$name" ] || changes=yes; done
  [ "$changes" = yes ] || echo "$line"
done >"$work/held.txt"
# pip finds and fetches everything before it takes anything away.
said=$("$python" -m pip install -q -c "$work/held.txt" $pins 2>&1 </dev/null) ||
  fail "pip cannot install $pins with all other packages held: $(reason "$said"); run again"
