# Runs a probe on this machine as on a node with a name and addresses: in private namespaces, with
# no processes but its own. one.sh HOME HOSTS SCRIPT NAME ADDRESS...
set -eu
home=$1 hosts=$2 script=$3 name=$4
shift 4
mount --bind "$hosts" /etc/hosts
echo "$name" >/proc/sys/kernel/hostname
mount -t sysfs sysfs /sys
ip link set lo up
# The nodes' addresses are in 127/8, which lo would have to itself.
ip address del 127.0.0.1/8 dev lo
ip address add 127.0.0.1/32 dev lo
ip link add eth0 type veth peer name port0
ip link set eth0 up
ip link set port0 up
echo 1 >/proc/sys/net/ipv4/conf/eth0/route_localnet
for address; do
  ip address add "$address/16" scope global dev eth0
done
cd "$home"
exec env -i HOME="$home" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
  sh "$script" "$name" </dev/null
