# apt for transaction.sh; transaction_rpm.sh has the same functions for yum and dnf.
# Variables: only (options of apt for a repository that is used for this alone; may be empty).
# shellcheck shell=sh disable=SC2015,SC2016,SC2034,SC2154
DEBIAN_FRONTEND=noninteractive; export DEBIAN_FRONTEND
verb=install only='' fetched=''
careful='--no-install-recommends -o Dpkg::Options::=--force-confold'
# apt says why in lines that begin with E: or W:, and before them which package needs what.
reason() {
  echo "$1" | awk '
    / (Depends|PreDepends|Breaks|Conflicts): / && !needs { needs = $0 "; " }
    /^ ?(E|W|Err)[: ]/ { why = $0 }
    END { gsub(/  +/, "", needs); print substr(needs why, 1, 300) }'
}
# ready: finish what a killed run or update left, and read the repositories
ready() {
  if [ "$look" = yes ]; then
    # The lists that the node has; where it has none new ones, which it does not keep.
    if [ -z "$only" ]; then
      ! find /var/lib/apt/lists -name '*_Packages*' 2>/dev/null | grep -q . || return 0
      aside
    fi
    only="$only -o Acquire::Retries=0 -o Acquire::http::Timeout=8 -o Acquire::https::Timeout=8"
  elif [ -n "$(dpkg --audit 2>/dev/null)" ]; then
    # apt also configures these whenever it installs something.
    refuse_reload 'packages that are half configured'
    patient dpkg --configure -a || :
  fi
  # shellcheck disable=SC2086 # words
  patient apt-get -q $only update || :
  fetched=$output
}
# aside: use lists of packages in a folder for this script alone, which the user of apt reads
aside() {
  mkdir -p "$work/lists/partial" && chmod 755 "$work" || fail "no room in /var/tmp; no package was changed"
  only="$only -o Dir::State::lists=$work/lists -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache="
}
status() { dpkg-query -W -f '${db:Status-Status} ${Version}\n' "$1" 2>/dev/null | head -n 1; }
# installed NAME: its version; nothing if it is not installed
installed() { status "$1" | sed -n 's/^installed //p'; }
# unpacked NAME: also where its scripts failed. A module that cannot be compiled leaves its package half
# configured: the build reports that.
unpacked() { status "$1" | sed -n 's/^\(installed\|half-configured\|unpacked\|triggers-[a-z]*\) //p'; }
is_begun() { case $(status "$1") in ('' | 'not-installed '* | 'config-files '*) return 1 ;; esac; }
# offered NAME: the versions in the repositories, the newest first
# shellcheck disable=SC2086 # words
offered() { apt-cache $only madison "$1" 2>/dev/null | awk '{ print $3 }'; }
# pin NAME: sets pinned, which asks for it at the wanted version
pin() {
  for each in $(offered "$1"); do
    ! is_wanted "$each" || { pinned=$1=$each; return 0; }
  done
  return 1
}
# repair PACKAGE: let it be installed again where it is installed, and files of it are missing
repair() { options=--reinstall; }
# shellcheck disable=SC2086 # words
with_options() { apt-get -q $only $careful $options "$@"; }
simulate() { plan=$(with_options -s install "$@" 2>&1 </dev/null); }
install() { patient with_options -y --no-remove install "$@"; }
# hold NAME...: no update replaces them
hold() { patient apt-mark hold "$@"; }
# lift: nothing of apt excludes a package that is named with its version
lift() { return 1; }
barred() { :; }
# coming: the names and versions of the plan's new packages
coming() { echo "$plan" | sed -n 's/^Inst \([^ :]*\)[^ ]* (\([^ ]*\) .*/\1 \2/p'; }
# needed: the names and exact versions that a refused plan lacks, and the package that needs them
needed() {
  echo "$plan" | awk '
    match($0, /(Pre-)?Depends: [^ ]+ \(= [^ )]*\) but /) {
      if ($2 == ":") asker = $1
      split(substr($0, RSTART, RLENGTH), words, " ")
      gsub(/:.*/, "", words[2]); gsub(/:.*/, "", asker)
      sub(/\)/, "", words[4])
      print words[2], words[4], asker
    }'
}
# harm: what the plan removes, replaces beside the named packages, or boots
harm() {
  echo "$plan" | awk -v named=" $named " '
    function tell(what) { printf "%s%s", comma, what; comma = ", " }
    { name = $2; sub(/:.*/, "", name) }
    $1 == "Remv" || $1 == "Purg" { tell("remove " $2) }
    $1 == "Inst" && $3 ~ /^\[/ && !index(named, " " name " ") {
      old = substr($3, 2); sub(/\]$/, "", old); new = substr($4, 2)
      if (old != new) tell("replace " $2 " " old)
    }
    $1 == "Inst" && $3 !~ /^\[/ && $2 ~ /^(linux-(image|modules-[0-9]|modules-extra|generic|virtual|lowlatency)|(pve|proxmox)-kernel)/ {
      tell("install the kernel " $2)
    }'
}
