# `timeout` is in coreutils and busybox; without it a background shell enforces the limit. The shell
# under the limit collects the output of a section: a child that survives in the background then
# keeps the pipe of that shell open, not ours. The exit code is last; where the output is cut, it is
# missing.
LC_ALL=C; export LC_ALL
unset CDPATH GREP_OPTIONS
gn_preload=${LD_PRELOAD-}; export gn_preload; unset LD_PRELOAD
# Who this is, for this shell and its sections: a program must not inherit it, because it may run as
# another user. A name with a quote is asked for again each time.
unset gn_me gn_uid
gn_me=$(id -un 2>/dev/null) gn_uid=$(id -u 2>/dev/null)
case $gn_me in (*"'"*) gn_me= ;; esac
gn_who="gn_me='$gn_me' gn_uid='$gn_uid'"
gn_run='gn_text=$({ (eval "$1") 2>&1; printf "\n%s" "$?"; } | head -c "$2")
gn_rc=${gn_text##*[!0-9]}
[ "${#gn_text}" -lt "$2" ] && [ -n "$gn_rc" ] || exit @too_long@
printf "%s" "${gn_text%?"$gn_rc"}"; exit "$gn_rc"'
gn_timeout=no
! timeout --version >/dev/null 2>&1 || gn_timeout=yes
export gn_timeout
# How many bytes all sections may still send, and lists of files more than that: of an answer that is
# too long nothing is read, so that a user who fills some sections would hide all others.
# shellcheck disable=SC2034 # for gn_print
gn_left=@most_of_all@ gn_lists=@most_of_lists@ gn_spare=0
# It replaces the shell that calls it: one process less.
gn_limit() {
  if [ "$gn_timeout" = yes ]; then
    exec timeout -s KILL "$1" sh -c "$gn_run" sh "$2" "$3"
  else
    gn_apart=; gn_group=
    ! command -v setsid >/dev/null 2>&1 || { gn_apart=setsid; gn_group=-; }
    $gn_apart sh -c "$gn_run" sh "$2" "$3" & gn_pid=$!
    ( sleep "$1"; kill -9 "$gn_group$gn_pid" ) >/dev/null 2>&1 & gn_dog=$!
    wait "$gn_pid"; gn_code=$?
    kill "$gn_dog" 2>/dev/null
    return "$gn_code"
  fi
}
# gn_section NAME SECONDS COMMAND BYTES VARIABLES
gn_section() {
  # shellcheck disable=SC2034 # for gn_print
  { gn_text=$(
    { [ -z "${5-}" ] || eval "export $5"; gn_limit "$2" "$gn_who
$3" "${4:-@most@}"; } 2>&1 </dev/null
  ); gn_rc=$?; } 2>/dev/null # dash prints that a shell was killed
  # Lists come last, but for a few short sections.
  # shellcheck disable=SC2034 # for gn_print
  gn_usual=@most@
  [ "${4:-0}" -le "$gn_usual" ] || gn_left=$((gn_left + gn_lists)) gn_lists=0 gn_spare=65536
  gn_print "$1"
  # shellcheck disable=SC2034 # for gn_print
  gn_spare=0
}
# The sh of light sections has these too. No text has our mark as it is: a shell that is killed while it
# prints leaves a section without its end, and what follows would be taken for sections.
gn_printing='gn_blank=$(printf "\t\nx"); gn_blank=${gn_blank%x}
gn_print() {
  gn_coding=raw
  case $gn_text in
    (*[!\ -~"$gn_blank"]* | *"$gn_mark"*) gn_coding=hex
      gn_text=$(printf "%s" "$gn_text" | od -An -v -tx1 | tr -d " \n") ;;
  esac
  [ "${#gn_text}" -le $((gn_left - gn_spare)) ] || gn_text="" gn_rc=@too_long@ gn_coding=raw
  gn_left=$((gn_left - ${#gn_text}))
  printf "\n%s begin %s %s %s %s\n" "$gn_mark" "$1" "$gn_rc" "$gn_coding" "${#gn_text}"
  printf "%s\n%s end %s\n" "$gn_text" "$gn_mark" "$1${gn_at:+ $gn_at}"
}'
eval "$gn_printing"
# Light sections share one shell and one time limit. Each collects the output of its section in a
# pipe, so that a program that cannot be killed does not keep the pipe of that shell open. The number
# of a section is behind its end.
gn_lightly='gn_at=0
gn_light() {
  gn_at=$((gn_at + 1))
  [ "$gn_at" != "$gn_alone" ] || { gn_light_section; exit; }
  [ "$gn_at" -gt "$gn_skip" ] || return 0
  { gn_text=$(gn_light_section 2>&1 </dev/null); gn_rc=$?; } 2>/dev/null
  [ "${#gn_text}" -lt @most@ ] || { gn_text=; gn_rc=@too_long@; }
  gn_print "$1"
}'
# gn_lights SECONDS CALLS SECONDS:NAME ...: runs them. Where the shell is killed, the section that it
# was at runs again, with a limit of its own, and the others after it share a limit again. CALLS are
# as in protocol.py.
gn_lights() {
  gn_most=$1 gn_calls="gn_mark='$gn_mark' $gn_who
$gn_printing
$gn_lightly
$2"
  shift 2
  gn_done=0
  while [ "$gn_done" -lt $# ]; do
    gn_rc=1 gn_all=''
    [ "$gn_timeout" = no ] || {
      gn_all=$(exec timeout -s KILL "$gn_most" sh -c "gn_skip=$gn_done gn_alone= gn_left=$gn_left gn_spare=0
$gn_calls" </dev/null)
      gn_rc=$?
    } 2>/dev/null
    [ -z "$gn_all" ] || printf '%s\n' "$gn_all"
    gn_left=$((gn_left - ${#gn_all}))
    [ "$gn_rc" != 0 ] || break
    gn_last=${gn_all##* }
    case $gn_last in ('' | *[!0-9]*) ;; (*) [ "$gn_last" -gt $# ] || gn_done=$gn_last ;; esac
    gn_done=$((gn_done + 1))
    [ "$gn_done" -le $# ] || break
    eval "gn_this=\${$gn_done}"
    gn_section "${gn_this#*:}" "${gn_this%%:*}" "gn_skip=$gn_done gn_alone=$gn_done
$gn_calls"
  done
}
