# What processes show of themselves, as plain text. A process chooses its name: /proc/PID/stat has it
# with its newlines, brackets and bytes that are not text. So a pid is that of the path, and the
# fields are those behind the last bracket.
# of_processes NAME PROGRAM ...: runs a program with /proc/PID/NAME of all processes, as often as it takes:
# any user can start more than one command line may name. It fails unless it named each; that the
# program itself fails, at a process that ends meanwhile, is no failure. ls needs one more file to
# print the name of a folder that is alone.
of_processes() {
  of_each=$1
  shift
  printf '%s\0' "${root-}"/proc/[0-9]*/"$of_each" | xargs -0 "$@"
  case $? in (0 | 123) ;; (*) return 1 ;; esac
}
# process_stat: for each /proc/PID/stat a line `PID STATE PPID PGRP SESSION TTY ...<tab>NAME` with ?
# for odd bytes; the start, in ticks since the boot, is field 21. It fails unless it has read each: take
# its lines before a pipe, which has the exit code of its last program. process_stat_of FILE: for one.
# shellcheck disable=SC2016 # for awk
process_stat_lines='
function print_process(   pid, name) {
  if (file == "") return
  pid = file; sub(/\/stat$/, "", pid); sub(/.*\//, "", pid)
  name = text; sub(/^[0-9]* \(/, "", name); sub(/\)[^)]*$/, "", name); gsub(/[^ -~]/, "?", name)
  sub(/.*\) /, "", text)
  print pid " " text "\t" name
}
$0 == "whole" { whole = 1; next }
{ at = index($0, ":"); line = substr($0, at + 1) }
substr($0, 1, at - 1) == file { text = text "?" line; next }
{ print_process(); file = substr($0, 1, at - 1); text = line }
END { print_process() }'
# grep reads the files: at a process that ends meanwhile awk would fail, or print an error.
process_stat() {
  { LC_ALL=C of_processes stat grep '' /dev/null && echo whole; } 2>/dev/null |
    LC_ALL=C awk "$process_stat_lines END { exit !whole }"
}
process_stat_of() {
  LC_ALL=C grep '' /dev/null "$1" 2>/dev/null | LC_ALL=C awk "$process_stat_lines"
}
# callers: prints the pids of this shell and its parents but 1, with blanks around each.
callers() {
  process_stat | awk -v pid="$$" '
    { parent[$1] = $3 }
    END { for (level = 0; pid > 1 && level < 100; level++) { printf " %s ", pid; pid = parent[pid] } }'
}
# command_line FOLDER: prints the command line of the process of a folder /proc/PID, without its
# secrets.
command_line() {
  { tr '\0\n' '\n ' <"$1/cmdline"; } 2>/dev/null | head -c 8192 |
    awk "$gn_hide"'{ printf "%s%s", (NR > 1 ? " " : ""), argument($0) }' | cut -c 1-100
}
