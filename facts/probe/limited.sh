"""sh that runs a program with a time limit, without the shell's own messages in its output."""

from __future__ import annotations

# `limited SECONDS PROGRAM ...` sets $output, what the program prints to stdout, and $code; 137:
# killed at the limit. With `limited SECONDS both PROGRAM ...` stderr is in $output as well. dash
# itself prints "Killed" where timeout kills a program. Without timeout(1) there is no limit.
LIMITED = r"""
has_timeout=no
! timeout --version >/dev/null 2>&1 || has_timeout=yes
# shellcheck disable=SC2034 # some callers need no code
limited() {
  seconds=$1 errors=
  shift
  [ "$1" != both ] || { errors=yes; shift; }
  [ "$has_timeout" = no ] || set -- timeout -s KILL "$seconds" "$@"
  { output=$([ -z "$errors" ] || exec 2>&1; exec "$@"); code=$?; } 2>/dev/null
}
"""
