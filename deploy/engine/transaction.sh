# Install named packages and replace no other one. transaction_deb.sh or transaction_rpm.sh is before this.
# Variables: manager. A script sets named, the names that it asks for, and may set the others.
# shellcheck shell=sh disable=SC2034,SC2154
look=no options='' first='' may_lift=no lifted=''
scratch() {
  [ -n "$work" ] || work=$(mktemp -d /var/tmp/gpu-node-packages.$$.XXXXXX) ||
    fail "no room in /var/tmp; no package was changed"
}
# begin: before all else, and before rpm or dpkg is asked
begin() { scratch && ready; }
# is_wanted VERSION: 535.154.05-0ubuntu1 is 535.154.05, and of branch 535; 1: before it is an epoch.
is_wanted() { case ${1#*:} in ("$version" | "$version"[!0-9]*) return 0 ;; esac; return 1; }
# beside: the plan's new packages that are not named, with their versions
beside() { coming | awk -v named=" $named " '!index(named, " " $1 " ")'; }
# harmless PACKAGE...: fail where the plan for them changes other packages
harmless() {
  why=$(harm)
  why=${why:+${manager%-get} would $why: where that is right, run: $manager${options:+ $options} $verb $*$first}
  # An administrator's exclude is passed over for the named packages alone.
  [ -n "$why" ] || [ -z "$lifted" ] || why=$(barred "$(beside | sed 's/ .*//')")
  why=${why#; }
  if [ "$look" = yes ]; then
    echo "$why"
    exit 0
  fi
  [ -z "$why" ] || fail "$why; no package was changed"
  [ -z "$lifted" ] || echo "gpu-node: passed over for $named alone$lifted"
  more=$(beside | tr '\n' ',' | sed 's/,$//; s/,/, /g')
  [ -z "$more" ] || echo "gpu-node: $named: ${manager%-get} also installs $more"
}
# transact PACKAGE...: install them. If that fails, `output` has the reason, and `unchanged` the words for what was
# changed; a script may look nevertheless whether what it needs is there.
transact() {
  unchanged='; no package was changed'
  simulate "$@" || { lift && simulate "$@"; } || { output=$plan; return 1; }
  harmless "$@"
  unchanged=
  install "$@"
}
