# What apt would do to installed packages: checked before anything is installed. package_locks.sh
# stands before this.
# shellcheck shell=sh disable=SC2034,SC2086
# apt says why in lines that begin with E: or W:, and before them which package needs what.
reason() {
  echo "$1" | awk '
    / (Depends|PreDepends|Breaks|Conflicts): / && !needs { needs = $0 "; " }
    /^ ?(E|W|Err)[: ]/ { why = $0 }
    END { gsub(/  +/, "", needs); print substr(needs why, 1, 300) }'
}
careful='--no-install-recommends -o Dpkg::Options::=--force-confold'
# Finish what a killed run or update left incomplete; if that fails, apt reports it.
finish_what_was_begun() {
  [ -n "$(dpkg --audit 2>/dev/null)" ] || return 0
  patient dpkg --configure -a || :
}
# simulate PACKAGE...: sets plan to what apt would do
simulate() { plan=$(apt-get -s -q $careful install "$@" 2>&1 </dev/null); }
# harm: what the plan removes, replaces, or boots
harm() {
  echo "$plan" | awk '
    function tell(what) { printf "%s%s", comma, what; comma = ", " }
    $1 == "Remv" { tell("remove " $2) }
    $1 == "Inst" && $3 ~ /^\[/ {
      old = substr($3, 2); sub(/\]$/, "", old); new = substr($4, 2)
      if (old != new) tell("replace " $2 " " old)
    }
    $1 == "Inst" && $3 !~ /^\[/ && $2 ~ /^(linux-(image|modules-[0-9]|modules-extra|generic|virtual|lowlatency)|(pve|proxmox)-kernel)/ {
      tell("install the kernel " $2)
    }'
}
