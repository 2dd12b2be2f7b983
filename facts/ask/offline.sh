node=${1:-@node@}
case $node in
  ('' | *@other@*)
    echo "usage: sh ${0##*/} NODE >NODE.txt; NODE is the name of this node in the inventory" >&2
    exit 1
    ;;
esac
# The answer is what root may read: a file that gets it is for its owner alone.
[ ! -f /dev/stdout ] || chmod go= /dev/stdout 2>/dev/null
read -r boot 2>/dev/null </proc/sys/kernel/random/boot_id || boot=-
printf '\n%s script %s %s %s %s %s\n' '@mark@' '@digest@' "$node" "$(date +%s)" \
  "$(uname -n | tr -d ' ')" "$boot"
