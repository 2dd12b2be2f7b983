# Take over the file that the controller sent for this run, from a folder of the account that logs
# in.
# Variables: sent (the file, or empty), sent_sum (its sha256). It sets pushed, the
# copy in a folder (box) of the account that runs this.
# shellcheck shell=sh disable=SC2034,SC2154
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
