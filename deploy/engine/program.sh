# Install a program without replacing other packages.
# Variables: manager, program (as PATH has it), packages (with blanks between), backups.
# Needs: writers closed place sent lock proxy containers package_locks no_answer noted transaction_deb transaction_rpm transaction
# shellcheck shell=sh disable=SC2034,SC2154
set -f
umask 022
fail() { echo "gpu-node: $program: $1" >&2; exit 1; }
! command -v "$program" >/dev/null 2>&1 || exit 0
note packages
refuse_reload "the $program package"
begin
named=$packages
# shellcheck disable=SC2086 # words
transact $packages || :
command -v "$program" >/dev/null 2>&1 || {
  output="$output
$fetched"
  fail "$(no_answer "$output")cannot be installed: $(reason "$output")$unchanged"
}
