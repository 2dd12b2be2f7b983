# Runs a command on the controller of nodes whose lines are equally slow: in private namespaces, with
# a switch, and a network of its own for each node. Nothing of it is left behind: as the first
# process of its namespace it takes all others with it.
# lines.sh FOLDER SSHD RATE COMMAND...; FOLDER/nodes has lines "NAME ADDRESS".
set -eu
folder=$1 sshd=$2 rate=$3
shift 3
here=$(dirname "$0")
for each in passwd shadow hosts; do
  mount --bind "$folder/$each" "/etc/$each"
done
# The namespaces of `ip netns`, and sshd's empty directory, are below /run.
mount -t tmpfs tmpfs /run

ip link set lo up
ip link add name switch type bridge
ip address add 10.168.145.1/24 dev switch
ip link set switch up
number=0
while read -r name address; do
  number=$((number + 1))
  ip netns add "$name"
  ip link add name "port$number" type veth peer name "end$number"
  ip link set "port$number" master switch up
  ip link set "end$number" netns "$name"
  ip -n "$name" link set lo up
  ip -n "$name" address add "$address/24" dev "end$number"
  ip -n "$name" link set "end$number" up
  # As slow in both directions: each end of the line is. An end that moves to another namespace
  # loses it.
  ip netns exec "$name" tc qdisc add dev "end$number" root tbf rate "$rate" burst 128kb latency 100ms
  tc qdisc add dev "port$number" root tbf rate "$rate" burst 128kb latency 100ms
  ip netns exec "$name" unshare --uts sh "$here/line_end.sh" "$folder" "$sshd" "$name" </dev/null &
done <"$folder/nodes"

tries=0
while read -r name address; do
  until [ -e "$folder/nodes.d/$name/sshd.pid" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 400 ] || {
      echo "the sshd of $name does not start" >&2
      exit 1
    }
    sleep 0.05
  done
done <"$folder/nodes"
cd "$folder"
export HOME="$folder/home"
"$@"
