# limited SECONDS PROGRAM ...: sets $output to the stdout of a program and $code to its exit code;
# 137: killed at the time limit. `limited SECONDS both PROGRAM ...` adds stderr to $output. dash
# prints "Killed" itself where timeout kills a program. Without timeout(1) there is no time limit.
# If a program prints more than 256 KiB, $output is empty and $code is 153.
has_timeout=${gn_timeout-}
[ -n "$has_timeout" ] || { timeout --version >/dev/null 2>&1 && has_timeout=yes; } || has_timeout=no
# shellcheck disable=SC2034 # some callers need no code
limited() {
  seconds=$1 errors=
  shift
  [ "$1" != both ] || { errors=yes; shift; }
  [ "$has_timeout" = no ] || set -- timeout -s KILL "$seconds" "$@"
  { output=$({
      ([ -z "$errors" ] || exec 2>&1; exec "$@")
      printf '\n%s' "$?"
    } | head -c 262144); } 2>/dev/null
  code=${output##*[!0-9]}
  if [ "${#output}" -lt 262144 ] && [ -n "$code" ]; then
    output=${output%?"$code"}
    while :; do
      case $output in (*"
") output=${output%?} ;; (*) break ;; esac
    done
  else
    output='' code=153
  fi
}
