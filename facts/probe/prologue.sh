# `timeout` is in coreutils and busybox; without it a background shell enforces the limit. The shell
# under the limit collects the output of a section: a child that survives in the background then
# keeps the pipe of that shell open, not ours. The exit code is last; where the output is cut, it is
# missing.
LC_ALL=C; export LC_ALL
unset CDPATH GREP_OPTIONS
gn_preload=${LD_PRELOAD-}; export gn_preload; unset LD_PRELOAD
gn_run='gn_text=$({ (eval "$1") 2>&1; printf "\n%s" "$?"; } | head -c "$2")
gn_rc=${gn_text##*[!0-9]}
[ "${#gn_text}" -lt "$2" ] && [ -n "$gn_rc" ] || exit @too_long@
printf "%s" "${gn_text%?"$gn_rc"}"; exit "$gn_rc"'
gn_blank=$(printf '\t\nx'); gn_blank=${gn_blank%x}
gn_timeout=no
! timeout --version >/dev/null 2>&1 || gn_timeout=yes
gn_limit() {
  if [ "$gn_timeout" = yes ]; then
    timeout -s KILL "$1" sh -c "$gn_run" sh "$2" "$3"
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
gn_section() {
  gn_text=$( { gn_limit "$2" "$3" "${4:-@most@}"; } 2>&1 </dev/null ); gn_rc=$?
  gn_print "$1"
}
gn_print() {
  gn_coding=raw
  case $gn_text in
    *[!\ -~"$gn_blank"]*) gn_coding=hex
      gn_text=$(printf '%s' "$gn_text" | od -An -v -tx1 | tr -d ' \n') ;;
  esac
  printf '\n%s begin %s %s %s %s\n' "$gn_mark" "$1" "$gn_rc" "$gn_coding" "${#gn_text}"
  printf '%s\n%s end %s\n' "$gn_text" "$gn_mark" "$1"
}
