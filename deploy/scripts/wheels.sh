# Leave one NCCL wheel in a Python environment, and that one whole: all NCCL wheels own one file.
# Variables: prefix (the environment), keep (as pip is asked for it), remove (names, or empty),
# asked (what facts/asked/environment.py says), allow (yes: even while a process uses it).
# shellcheck shell=sh disable=SC2154,SC2086,SC2010,SC2012
set -u
LC_ALL=C; export LC_ALL
umask 022
PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
export PIP_ROOT_USER_ACTION PIP_DISABLE_PIP_VERSION_CHECK PIP_NO_INPUT
work=
fail() { [ -z "$work" ] || rm -rf "$work"; echo "gpu-node: $prefix: $1" >&2; exit 1; }
last() { echo "$1" | grep -v '^[[:space:]]*$' | tail -n 1; }

# Processes that have a libnccl mapped or hold a GPU: pid, user and command.
users() {
  for process in /proc/[0-9]*; do
    grep -qs 'libnccl' "$process/maps" ||
      ls -l "$process/fd" 2>/dev/null | grep -q ' /dev/nvidia[0-9]' || continue
    user=$(ls -ld "$process" 2>/dev/null | awk '{ print $3 }')
    command=$(tr '\0' ' ' <"$process/cmdline" 2>/dev/null | cut -c 1-100)
    printf ', pid %s (%s: %s)' "${process#/proc/}" "$user" "${command% }"
  done
}

python=$prefix/bin/python
[ -x "$python" ] || python=$prefix/bin/python3
[ -x "$python" ] || fail "no Python is there; nothing was changed"
if [ "$allow" != yes ]; then
  busy=$(users)
  [ -z "$busy" ] ||
    fail "in use by ${busy#, }; nothing was changed: end them, or give --data allow_disruption=true"
fi
# The replacement first: where it cannot be had, what is there stays as it is.
work=$(mktemp -d /var/tmp/gpu-node-wheels.XXXXXX) || fail "no room in /var/tmp; nothing was changed"
said=$("$python" -m pip download -q --no-deps -d "$work" "$keep" 2>&1 </dev/null) ||
  fail "pip cannot get $keep: $(last "$said"); nothing was changed"
if [ -n "$remove" ]; then
  said=$("$python" -m pip uninstall -q -y $remove 2>&1 </dev/null) ||
    fail "pip cannot remove $remove: $(last "$said")"
fi
said=$("$python" -m pip install -q --no-deps --force-reinstall --no-index --find-links "$work" \
  "$keep" 2>&1 </dev/null) || fail "pip cannot install $keep: $(last "$said"); run again"
said=$("$python" -I -c "$asked" whole "${keep%%==*}" 2>&1 </dev/null) || fail "$said; run again"
rm -rf "$work"
