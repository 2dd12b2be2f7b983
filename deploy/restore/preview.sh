# Print what becomes of files if runs are taken back; it changes nothing. A line for each: PATH HOW, and WHY or
# BEFORE AFTER MODE OWNERS RUN LINES (see walk.sh; the lines that change, in hex); `end` is the last.
# Variables: those of walk.sh, files (lines `USER PATH`), most (lines of a change), longest (bytes of a line).
# Needs: walk
# shellcheck shell=sh disable=SC2154,SC2034
now() { [ "$before" = absent ] || as_user_within 60 "cat <$at" 'head -c 16777216' </dev/null; }
changed_lines() {
  [ "$after" = absent ] || {
    now | (user=; as_user_within 20 "diff -a -U 0 - $(quoted "$copy"); [ \$? -le 1 ]") ||
      printf '\n\n+ (these lines cannot be compared)\n'
  } 2>/dev/null | awk -v most="$most" -v longest="$longest" '
    # Two lines name the files; the others begin with -, + or @.
    NR > 2 && /^[-+]/ && ++count <= most {
      more = length($0) - longest
      print substr($0, 1, longest) (more > 0 ? "... (" more " more bytes)" : "")
    }
    END { if (count > most) print "... (" count - most " more lines)" }' | od -An -v -tx1 | tr -d ' \n'
}
while read -r owner path <&3; do
  look_at "$owner" "$path"
  case $how in
    (back) printf '%s\n' "$path back $before $after $mode $owners $run $(changed_lines)" ;;
    (*) printf '%s\n' "$path $how $why" ;;
  esac
done 3<<FILES
$files
FILES
echo end
