# Install a program without replacing other packages: yum or dnf.
# Variables: manager, program (as PATH has it), packages (with blanks between), backups.
# Needs: writers closed place lock proxy containers package_locks no_answer transaction_rpm noted
# shellcheck shell=sh disable=SC2154,SC2086
set -uf
LC_ALL=C; export LC_ALL
umask 022
fail() { echo "gpu-node: $program: $1" >&2; exit 1; }
! command -v "$program" >/dev/null 2>&1 || exit 0
note packages
refuse_reload "the $program package"
simulate $packages || fail "$(no_answer "$plan")$manager refuses: $(reason "$plan"); nothing was changed"
why=$(harm)
[ -z "$why" ] || fail "$manager would $why: that is left to you; nothing was changed"
patient $manager -y $careful install $packages || :
command -v "$program" >/dev/null 2>&1 || fail "$(no_answer "$output")cannot be installed: $(reason "$output")"
