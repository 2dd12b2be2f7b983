# Prints the rules by which firewalld would accept what comes from addresses, as far as they are missing in the
# zone of an interface: `runtime ZONE ADDRESS` and `permanent ZONE ADDRESS`; `problem WHY` where it does not run.
# Arguments: interface, addresses
interface=$1
shift
state=$(firewall-cmd --state 2>&1) || { echo "problem it does not run: ${state:-no output}" | head -n 1; exit 0; }
zone=$(firewall-cmd --get-zone-of-interface="$interface" 2>/dev/null) || zone=$(firewall-cmd --get-default-zone 2>&1)
has() { firewall-cmd -q "$@" --query-rich-rule="rule family=\"$family\" source address=\"$each\" accept" 2>/dev/null; }
for each; do
  case $each in (*:*) family=ipv6 ;; (*) family=ipv4 ;; esac
  has --zone="$zone" || echo "runtime $zone $each"
  has --permanent --zone="$zone" || echo "permanent $zone $each"
done
