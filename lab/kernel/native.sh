# Runs the sshd of a kernel lane's disk on this machine's own kernel, so that packages are downloaded
# and modules built at full speed, until stdin ends. As the first process of separate mount and pid
# namespaces: with it all processes and mounts end.
# $1: the disk, $2: where it is mounted, $3: the port of sshd, $4: the kernel that counts as running,
# $5: a folder of files for /etc
disk=$1 root=$2 port=$3 kernel=$4
mkdir -p "$root"
mount -o loop "$disk" "$root"
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
for each in dev run sys usr/local/sbin; do mount -t tmpfs -o mode=755 native "$root/$each"; done
for each in full null random tty urandom zero; do
    : >"$root/dev/$each"
    mount --bind "/dev/$each" "$root/dev/$each"
done
ln -s /proc/self/fd "$root/dev/fd"
mkdir -p "$root/dev/shm" "$root/run/sshd"

# Stand-ins, none of which is on the disk: two GPUs on the PCI bus, the release of the kernel, and a
# module that it has loaded.
for slot in 0000:3b:00.0 0000:86:00.0; do
    folder=$root/sys/bus/pci/devices/$slot
    mkdir -p "$folder"
    echo 0x10de >"$folder/vendor"
    echo 0x030200 >"$folder/class"
    echo 0x1db6 >"$folder/device"
done
mkdir -p "$root/sys/module"
cat >"$root/usr/local/sbin/uname" <<'STAND_IN'
#!/bin/sh
case $* in -r) cat /run/kernel ;; *) exec /usr/bin/uname "$@" ;; esac
STAND_IN
cat >"$root/usr/local/sbin/modprobe" <<'STAND_IN'
#!/bin/sh
[ "$*" = nvidia ] || exec /usr/sbin/modprobe -S "$(uname -r)" "$@"
version=$(modinfo -k "$(uname -r)" -F version nvidia-current) || exit
mkdir -p /sys/module/nvidia
echo "$version" >/sys/module/nvidia/version
STAND_IN
# Of the driver's five modules the first is built: the others take most of the time.
cat >"$root/usr/local/sbin/dkms" <<'STAND_IN'
#!/bin/sh
NV_EXCLUDE_KERNEL_MODULES='nvidia-modeset nvidia-drm nvidia-uvm nvidia-peermem'
export NV_EXCLUDE_KERNEL_MODULES
others='_MODULE_[A-Z]*\[[1-9]\]='
for conf in /usr/src/nvidia-*/dkms.conf; do
    ! grep -qs "$others" "$conf" || sed -i "/$others/d" "$conf"
done
exec /usr/sbin/dkms "$@"
STAND_IN
chmod 755 "$root/usr/local/sbin"/*
echo "$kernel" >"$root/run/kernel"

cp -r "$5/." "$root/etc"

# The stub of a driver is removed.
chroot "$root" sh -eu <<'CHROOT'
stub=$(dkms status nvidia | sed -n 's/^nvidia\/\([^,:]*\).*/\1/p' | head -n 1)
if [ -n "$stub" ]; then
    dkms remove "nvidia/$stub" --all >/dev/null
    rm -rf "/usr/src/nvidia-$stub" /usr/bin/nvidia-smi /usr/bin/nvidia-modprobe
    rm -f /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.* /usr/lib/x86_64-linux-gnu/libcuda.so.*
    rm -f /etc/modprobe.d/nvidia-installer-disable-nouveau.conf
    # The booted disk has no GPU.
    rm -f /etc/systemd/system/sysinit.target.wants/lab-gpus.service
    ldconfig
fi
printf '#!/bin/sh\nexit 101\n' >/usr/local/sbin/policy-rc.d
apt-get -qq update -o APT::Update::Error-Mode=any
CHROOT
setpriv --bounding-set=-sys_admin,-sys_module,-sys_boot,-sys_time,-mknod \
    chroot "$root" /usr/sbin/sshd -D -e -o "Port=$port" -o ListenAddress=127.0.0.1 &
cat >/dev/null
kill -KILL -1 # all but this one
until umount --recursive "$root"; do sleep 0.2; done
