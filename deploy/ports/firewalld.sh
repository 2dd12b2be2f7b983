# Have firewalld accept all that comes from other nodes, by rich rules in the zone of an interface, which keep what else is
# in it: a source that is bound to a zone would move all traffic of that address there. A reload would drop docker's rules.
# Variables: action (try: at runtime, for some seconds; keep: from now on; take: remove; back: as an earlier record has
# it, and our record stays), interface and addresses (for try and keep), seconds, rules (for take: lines ZONE ADDRESS), record
# (the file with our rules of all runs, such lines), copy (of the earlier record, for back), backups
# Needs: writers closed place lock noted
# shellcheck shell=sh disable=SC2154
PATH=$PATH:/usr/sbin:/sbin
fail() { echo "gpu-node: firewalld: $1" >&2; exit 1; }
# rule VERB OPTION...: of $zone and $address
rule() {
  verb=$1 family=ipv4
  shift
  case $address in (*:*) family=ipv6 ;; esac
  firewall-cmd -q --zone="$zone" "--$verb-rich-rule=rule family=\"$family\" source address=\"$address\" accept" "$@"
}
has() { rule query "$@" 2>/dev/null; }
# changed VERB OPTION...: the same; ends this script where firewalld refuses
changed() { output=$(rule "$@" 2>&1) || fail "$zone: $address: ${output:-it gives no reason}"; }
# The end of the trial's time would remove the rule of the trial.
accept() {
  changed add --permanent
  ! has || changed remove
  changed add
}
forget() {
  ! has --permanent || changed remove --permanent
  ! has || changed remove
}
# each COMMAND LINES
each() {
  while read -r zone address; do [ -z "$address" ] || "$1"; done <<END
$2
END
}
state=$(firewall-cmd --state 2>&1) ||
  fail "it does not run (${state:-no output}); nothing was changed: start it, and run again"
zone=$(firewall-cmd --get-zone-of-interface="$interface" 2>/dev/null) || zone=$(firewall-cmd --get-default-zone)
[ -e "$record" ] || [ "$action" = keep ] || record=/dev/null
case $action in
  (try)
    for address in $addresses; do
      # What is read at the next start anyway needs no trial.
      has || if has --permanent; then changed add; else changed add --timeout="$seconds"; fi
    done
    ;;
  (keep)
    for address in $addresses; do
      # What another program keeps is not ours. A killed run leaves no rule that is not in the record.
      has --permanent || {
        { cat "$record" 2>/dev/null; echo "$zone $address"; } | sort -u | put "$record" ||
          fail "$record cannot be written"
        accept
      }
    done
    ;;
  (take)
    each forget "$rules"
    stays=$(printf '%s\n' "$rules" | grep -vxF -f - "$record")
    if [ -n "$stays" ]; then printf '%s\n' "$stays" | put "$record"; else kept "$record" '' && rm -f "$record"; fi ||
      fail "$record cannot be written"
    ;;
  (back)
    each forget "$(grep -vxF -f "$copy" "$record")"
    each accept "$(grep -vxF -f "$record" "$copy")"
    ;;
esac
