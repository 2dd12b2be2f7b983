# Prints one line for each interface. /sys/class/net has files too (bonding_masters). Many drivers
# refuse to report a speed.
[ -d /sys/class/net ] || { echo 'no /sys/class/net'; exit 1; }
for link in /sys/class/net/*; do
  [ -e "$link/flags" ] || continue
  state=unknown mtu=- speed=-
  read -r flags 2>/dev/null <"$link/flags" || continue # it went away meanwhile
  { read -r state <"$link/operstate"; read -r mtu <"$link/mtu"
    read -r speed <"$link/speed"; } 2>/dev/null
  kind=virtual
  [ ! -e "$link/device" ] || kind=physical
  [ ! -e "$link/tun_flags" ] || kind=tun
  [ ! -d "$link/bridge" ] || kind=bridge
  [ ! -d "$link/bonding" ] || kind=bond
  ! grep -q '^DEVTYPE=vlan$' "$link/uevent" 2>/dev/null || kind=vlan
  [ "${link##*/}" != lo ] || kind=loopback
  echo "${link##*/} $flags $state ${mtu:--} ${speed:--} $kind"
done
