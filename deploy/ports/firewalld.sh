# Have firewalld accept all that comes from other nodes, by rich rules in a zone, which keep what else is in it: a source
# that is bound to a zone would move all traffic of that address there. A reload would drop docker's rules.
# Variables: action (try: at runtime, for some seconds; keep: from now on; take: remove), rules (lines ZONE ADDRESS), seconds,
# record (the file with our rules of all runs), copy (of an earlier record, or empty: take what is not in it, and leave the
# record as it is), backups
# Needs: writers closed place lock noted
# shellcheck shell=sh disable=SC2154,SC2015
PATH=$PATH:/usr/sbin:/sbin
fail() { echo "gpu-node: firewalld: $1" >&2; exit 1; }
# rule VERB OPTION...: of $zone and $address
rule() {
  verb=$1 family=ipv4
  shift
  case $address in (*:*) family=ipv6 ;; esac
  firewall-cmd -q --zone="$zone" "--$verb-rich-rule=rule family=\"$family\" source address=\"$address\" accept" "$@"
}
# changed VERB OPTION...: the same; ends this script where firewalld refuses
changed() { output=$(rule "$@" 2>&1) || fail "$zone: $address: ${output:-it gives no reason}"; }
removed() { ! rule query "$@" 2>/dev/null || changed remove "$@"; }
state=$(firewall-cmd --state 2>&1) || fail "it does not run (${state:-no output}); nothing was changed: start it, and run again"
stays=$(cat "$record" 2>/dev/null)
[ -z "$copy" ] || rules=$(grep -vxF -f "$copy" "$record")
while read -r zone address; do
  [ -n "$address" ] || continue
  case $action in
    (try)
      # What is read at the next start anyway needs no trial.
      if rule query --permanent 2>/dev/null; then changed add; else changed add --timeout="$seconds"; fi
      ;;
    (keep)
      # The rule is in the record before firewalld has it: a killed run leaves none that is unknown.
      printf '%s\n%s %s\n' "$stays" "$zone" "$address" | sort -u | grep . | put "$record" ||
        fail "$record cannot be written; nothing was changed"
      stays=$(cat "$record")
      changed add --permanent
      removed
      changed add
      ;;
    (take)
      removed --permanent
      removed
      stays=$(printf '%s\n' "$stays" | grep -vxF "$zone $address")
      ;;
  esac
done <<RULES
$rules
RULES
[ "$action" = take ] && [ -z "$copy" ] || exit 0
if [ -n "$stays" ]; then printf '%s\n' "$stays" | put "$record"; else kept "$record" '' && rm -f "$record"; fi ||
  fail "$record cannot be written"
