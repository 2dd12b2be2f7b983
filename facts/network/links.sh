# Prints one line for each interface. /sys/class/net has files too (bonding_masters). Many drivers
# refuse to report a speed. A bond's mode is a word and a number; a bridge's ports are links.
[ -d /sys/class/net ] || { echo 'no /sys/class/net'; exit 1; }
conf=/proc/sys/net/ipv4/conf all=0
{ read -r all <"$conf/all/rp_filter"; } 2>/dev/null
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
  own=0
  { read -r own <"$conf/${link##*/}/rp_filter"; } 2>/dev/null
  # The larger of both counts; 1 is strict.
  case $all$own in (01 | 10 | 11) echo "=strict ${link##*/}" ;; esac
  if [ "$kind" = bond ]; then
    mode=- ports=
    { read -r mode _ <"$link/bonding/mode"; read -r ports <"$link/bonding/slaves"; } 2>/dev/null
    [ -z "$ports" ] || echo "=ports ${link##*/} ${mode:--} $ports"
  elif [ "$kind" = bridge ]; then
    ports=
    for port in "$link"/brif/*; do
      [ ! -e "$port" ] || ports="$ports ${port##*/}"
    done
    [ -z "$ports" ] || echo "=ports ${link##*/} bridge$ports"
  fi
done
for port in /sys/class/infiniband/*/ports/*; do
  read -r state <"$port/state" || continue
  layer=-
  read -r layer <"$port/link_layer"
  device=${port%/ports/*} gids=
  # RoCE has a GID for each address; an index without one has zeros.
  [ "$layer" != Ethernet ] || gids=$(cd "$port/gids" && grep -ls '[1-9a-f]' [0-9]* | tr '\n' ' ')
  echo "=hca ${device##*/}/${port##*/} ${state#*: } ${layer:--} $gids"
done 2>/dev/null
# The main table of IPv4, in the kernel's hex, below its header; that of a router is too long.
rows=0 most=@most@
while read -r device to _ _ _ _ _ mask _; do
  [ "$rows" -le "$most" ] || device=many
  echo "=route $device $to $mask"
  [ "$device" != many ] || break
  rows=$((rows + 1))
done 2>/dev/null </proc/net/route
exit 0
