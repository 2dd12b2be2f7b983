# Install a program without replacing other packages: apt.
# Variables: program (as PATH has it), packages (with blanks between), backups.
# Needs: writers closed place lock proxy containers package_locks no_answer transaction_deb noted
# shellcheck shell=sh disable=SC2154,SC2086
set -uf
LC_ALL=C; export LC_ALL
DEBIAN_FRONTEND=noninteractive; export DEBIAN_FRONTEND
umask 022
fail() { echo "gpu-node: $program: $1" >&2; exit 1; }
! command -v "$program" >/dev/null 2>&1 || exit 0
note packages
refuse_reload "the $program package"
finish_what_was_begun
patient apt-get -q update || :
fetched=$output
simulate $packages || fail "$(no_answer "$fetched")apt refuses: $(reason "$plan
$fetched"); nothing was changed"
why=$(harm)
[ -z "$why" ] || fail "apt would $why: that is left to you; nothing was changed"
patient apt-get -q -y $careful --no-remove install $packages || :
command -v "$program" >/dev/null 2>&1 || fail "$(no_answer "$output
$fetched")cannot be installed: $(reason "$output
$fetched")"
