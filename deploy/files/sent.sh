# What the controller sent for this run, and the folders of runs in /var/tmp. It stands before all else:
# whatever refuses to begin clears its own away, too.
# Variables: sent (the file, in a folder for it alone, of the account that logs in; or empty), sent_sum
# (its sha256), pushed (empty). It sets pushed, the copy in a folder (box) of the account that runs this;
# scripts may set work.
# Given: sent sent_sum pushed
# shellcheck shell=sh disable=SC2016,SC2154
box='' work=''
clear_sent() { rm -rf ${sent:+"${sent%/*}"} ${box:+"$box"} ${pushed:+"$pushed"} ${work:+"$work"}; }
trap clear_sent EXIT
trap 'exit 1' HUP INT TERM

# Of killed runs: what is a day old, and folders with the number of a process that no longer runs. With
# sudo, the account that logs in has left files, too.
ours() { find /var/tmp -maxdepth 1 \( -user "$(id -u)" -o -user "${SUDO_UID:-$(id -u)}" \) "$@" 2>/dev/null; }
ours -mtime +0 \( \
  -name 'gpu-node-wheels.*' -o -name 'gpu-node-sent.*' -o -name 'gpu-node-box.*' -o \
  -name 'gpu-node-packages.*' -o -name 'gpu-node-pip.*' -o -name 'gpu-node-*.whl' \) \
  -exec rm -rf {} +
ours -name 'gpu-node-*.[0-9]*.??????' -exec sh -c 'for each; do
  pid=${each%.*}
  pid=${pid##*.}
  case $pid in (*[!0-9]*) ;; (*) [ -d "/proc/$pid" ] || rm -rf "$each" ;; esac
done' sh {} +

if [ -n "$sent" ]; then
  box=$(umask 077; mktemp -d /var/tmp/gpu-node-box.$$.XXXXXX) ||
    { echo "gpu-node: no room in /var/tmp; nothing was changed" >&2; exit 1; }
  pushed=$box/${sent##*/}
  output=$(cp -- "$sent" "$pushed" 2>&1) && rm -f -- "$sent" &&
    [ "$(sha256sum <"$pushed" | cut -d' ' -f1)" = "$sent_sum" ] || {
    echo "gpu-node: ${sent##*/} was damaged on its way from the controller: ${output:-its sha256 is another}; nothing was changed: run again" >&2
    exit 1
  }
fi
