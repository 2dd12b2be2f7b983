# Runs the sshd of a node with a line of its own: line_end.sh FOLDER SSHD NAME, in its namespaces.
# Each node has its own files at the same path.
set -eu
folder=$1 sshd=$2 name=$3
echo "$name" >/proc/sys/kernel/hostname
mount --bind "$folder/nodes.d/$name/tree" "$folder/tree"
mount -t tmpfs tmpfs /run
mkdir -m 755 /run/sshd
exec "$sshd" -D -E "$folder/nodes.d/$name/sshd.log" -f "$folder/sshd.conf" \
  -o "PidFile=$folder/nodes.d/$name/sshd.pid"
