# One sudo runs all sections that need root, because sites log each use. The script is sent by
# stdin: the log shows only `sh`, and no limit of arguments or variables applies to its length. It
# starts in /: root may have no access to the home of the user. A marker in the output shows that
# sudo ran it. gn_sudo is how sudo starts, gn_fed the lines before the script: a password, and a mark
# up to which root's shell drops what sudo has not read. printf must be the shell's own: no process
# has them in its arguments. Where sudo refuses, the sections run as the SSH user; where it hangs, they do not run.
gn_by_sudo() {
  if [ "$(id -u)" = 0 ]; then eval "$gn_rooted"; return; fi
  gn_script="$gn_prologue
cd /; gn_user=\$SUDO_USER gn_top=$gn_top gn_left=$gn_left; export gn_user gn_top
$gn_rooted"
  [ -z "$gn_fed" ] || [ "$(command -v printf)" = printf ] ||
    gn_fed='' gn_sudo='{ echo "sh has no printf of its own, so sudo gets no password"; exit 1; }'
  # A command in the background, as gn_limit may have, reads /dev/null in place of stdin.
  gn_text=$( {
    printf '%s\n' ${gn_fed:+"$gn_fed"} "$gn_script" 2>/dev/null |
      { gn_limit "$1" "$gn_sudo <&3" @most@; } 3<&0
  } 2>&1 </dev/null ); gn_rc=$?
  gn_answer=
  case $gn_text in
    (*"$gn_mark begin "*) gn_answer=${gn_text#*"$gn_mark"} gn_text='' gn_rc=0 ;;
  esac
  gn_print sudo
  if [ -n "$gn_answer" ]; then
    printf '\n%s%s\n' "$gn_mark" "$gn_answer"
    gn_left=$((gn_left - ${#gn_answer}))
  else
    case $gn_rc in (124 | 137) ;; (*) eval "$gn_rooted" ;; esac
  fi
}
