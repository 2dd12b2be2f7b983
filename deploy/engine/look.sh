# Before a run asks its question, and in a dry run: print what a transaction would be refused for, and change
# nothing. It stands behind transaction.sh, in place of what a change needs.
# shellcheck shell=sh disable=SC2034
look=yes work=''
trap 'rm -rf ${work:+"$work"}' EXIT
trap 'exit 1' HUP INT TERM
note() { :; }
refuse_reload() { :; }
# It waits for no other program.
patient() { output=$("$@" 2>&1 </dev/null); }
note_holds() { :; }
# Where nothing is left to simulate, what follows would be a change.
install() { exit 0; }
hold() { exit 0; }
put() { exit 0; }
