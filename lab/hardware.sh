# Gives a starting node its kernel before the first login. Runs in its mount namespace with this
# machine's rights, which a node may lack: mounts over what this machine's kernel shows of modules
# and firmware, then boots.
umask 022
state=/run/gpu-node-lab
mkdir -p "$state"
mount -t tmpfs -o mode=755 lab "$state"
: >"$state/modules"
[ ! -e /proc/modules ] || mount --bind "$state/modules" /proc/modules
for place in /proc/driver /sys/module /sys/firmware; do mount -t tmpfs -o mode=755 lab "$place"; done
exec /usr/lib/gpu-node-lab/boot
