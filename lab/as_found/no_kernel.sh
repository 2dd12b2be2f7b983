# What a container has instead of its own kernel and clock, and what is loaded into that kernel; each
# node writes the cards that it has.
mkdir -p /usr/lib/gpu-node-lab/real
put_stand_in() { rm -f "$1" && stand_in "${1##*/}" >"$1" && chmod 755 "$1"; }
cp -L /usr/bin/uname /usr/bin/date /usr/lib/gpu-node-lab/real
for name in modprobe modinfo depmod; do ln -s /bin/kmod "/usr/lib/gpu-node-lab/real/$name"; done
for file in kernel.sh boot default-kernel; do put_stand_in "/usr/lib/gpu-node-lab/$file"; done
for file in /usr/bin/uname /usr/bin/date /usr/sbin/modprobe /usr/sbin/rmmod /usr/sbin/lsmod \
    /usr/sbin/modinfo /usr/sbin/depmod; do put_stand_in "$file"; done
ln -sf ../sbin/lsmod /usr/bin/lsmod
