# Makes the tree one that boots: runs in it; /mnt holds the driver's stub, the lab's scripts and
# programs and its keys, and gets GRUB's boot.img and core.img. FIRST and UPDATE are releases of
# kernels, UPDATING is the command that brings the second.
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
unset TMPDIR

# What there is to install lies on the disk: the machine reaches nothing but its own loopback.
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /var/lib/apt/lists/*
(cd /srv/packages && dpkg-scanpackages --multiversion . >Packages 2>/dev/null)
echo 'deb [trusted=yes] file:/srv/packages ./' >/etc/apt/sources.list.d/lab.list
apt-get -qq update

# Only those modules that this machine needs, and no marks of each option of a kernel: an emulated
# processor unpacks and indexes thousands of files in minutes. What is unpacked is not synced either.
cat >/etc/dpkg/dpkg.cfg.d/lab <<'END'
force-unsafe-io
path-exclude=/usr/src/linux-headers-*/include/config/[A-Z]*
path-exclude=*/lib/modules/*/kernel/*
path-include=*/lib/modules/*/kernel/drivers/block/virtio_blk*
path-include=*/lib/modules/*/kernel/drivers/char/hw_random/*
path-include=*/lib/modules/*/kernel/drivers/net/*virtio_net*
path-include=*/lib/modules/*/kernel/drivers/net/net_failover*
path-include=*/lib/modules/*/kernel/drivers/virtio/*
path-include=*/lib/modules/*/kernel/crypto/crc*
path-include=*/lib/modules/*/kernel/arch/x86/crypto/crc*
path-include=*/lib/modules/*/kernel/lib/*crc*
path-include=*/lib/modules/*/kernel/net/core/failover*
path-include=*/lib/modules/*/kernel/fs/ext4/*
path-include=*/lib/modules/*/kernel/fs/jbd2/*
path-include=*/lib/modules/*/kernel/fs/mbcache*
path-include=*/lib/modules/*/kernel/fs/autofs/*
path-include=*/lib/modules/*/kernel/fs/nfs*/*
path-include=*/lib/modules/*/kernel/fs/lockd/*
path-include=*/lib/modules/*/kernel/fs/fscache/*
path-include=*/lib/modules/*/kernel/fs/netfs/*
path-include=*/lib/modules/*/kernel/net/sunrpc/*
path-include=*/lib/modules/*/kernel/lib/oid_registry*
path-include=*/lib/modules/*/kernel/net/dns_resolver/*
END

# An initramfs of what this machine has, without a second udev: its modules are loaded by name.
mkdir -p /etc/initramfs-tools/conf.d /etc/default
printf '%s\n' virtio_pci virtio_blk virtio_net virtio_rng ext4 >/etc/initramfs-tools/modules
for script in init-top init-bottom; do
    mkdir -p "/etc/initramfs-tools/scripts/$script"
    printf '#!/bin/sh\n' >"/etc/initramfs-tools/scripts/$script/udev"
    chmod 755 "/etc/initramfs-tools/scripts/$script/udev"
done
printf '%s\n' MODULES=list COMPRESS=gzip COMPRESSLEVEL=1 RESUME=none >/etc/initramfs-tools/conf.d/lab

driver=535.154.05
cp -r /mnt/driver "/usr/src/nvidia-$driver"
dkms add "nvidia/$driver" >/dev/null
# As NVIDIA's installer does, before the initramfs is made.
printf '%s\n' 'blacklist nouveau' 'options nouveau modeset=0' >/etc/modprobe.d/nvidia-installer-disable-nouveau.conf
echo nvidia >/etc/modules-load.d/nvidia.conf

cat >/etc/default/grub <<END
GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=lab
GRUB_CMDLINE_LINUX="$CMDLINE"
GRUB_TERMINAL=serial
GRUB_SERIAL_COMMAND="serial --speed=115200"
GRUB_DISABLE_OS_PROBER=true
END
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
# shellcheck disable=SC2086  # a list of packages
apt-get -qq install --yes --no-install-recommends -o Dpkg::Use-Pty=0 $BOOT \
    "linux-headers-$FIRST" "linux-image-$FIRST" >/mnt/install.log 2>&1 || {
    tail -n 40 /mnt/install.log >&2
    exit 1
}
rm /usr/sbin/policy-rc.d
dkms status "nvidia/$driver" -k "$FIRST" | grep -q installed ||
    dkms install "nvidia/$driver" -k "$FIRST" >/dev/null

# The user's part of the driver.
libraries=/usr/lib/x86_64-linux-gnu
printf 'void nvmlInit_v2(void) {}\n' |
    cc -shared -nostdlib -fPIC -Wl,-soname,libnvidia-ml.so.1 -x c - \
        -o "$libraries/libnvidia-ml.so.$driver"
printf 'int cuInit(unsigned flags) { return 0; }\n' |
    cc -shared -nostdlib -fPIC -Wl,-soname,libcuda.so.1 -x c - -o "$libraries/libcuda.so.$driver"
ldconfig
install -m 755 /mnt/nvidia-smi /usr/bin/nvidia-smi
# What loads nvidia-uvm for the first program that uses CUDA; none does here.
install -m 4755 /bin/true /usr/bin/nvidia-modprobe
mkdir -p /usr/lib/gpu-node-lab
echo 'd /run/gpu-node-lab 0755' >/etc/tmpfiles.d/gpu-node-lab.conf
# Only the part about the GPUs: the environments below it are not this machine's.
sed -n '/^cat /,/^END$/p' /mnt/cards.sh | sh -eu
cp /mnt/pci.sh /usr/lib/gpu-node-lab/pci.sh
# oneshot NAME COMMAND: a unit that runs a command once at boot, before sshd.
oneshot() {
  cat >"/etc/systemd/system/$1.service" <<END
[Unit]
DefaultDependencies=no
Before=ssh.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=$2
[Install]
WantedBy=sysinit.target
END
}
oneshot lab-gpus 'sh -eu /usr/lib/gpu-node-lab/pci.sh'

NODE=k-01 MIRROR=mirror.invalid PASSWORD='' HOST_KEY="$(cat /mnt/host_key)
" HOST_KEY_PUBLIC="$(cat /mnt/host_key.pub)" CLIENT_KEY="$(cut -d' ' -f1,2 /mnt/key.pub)" \
    sh -eu /mnt/as_found.sh
# A Debian or Ubuntu server: rpm and dnf are not there.
rm -rf /usr/bin/rpm* /usr/bin/dnf* /usr/bin/yum /etc/dnf /etc/rpm /usr/lib/rpm
sed -i "3a UUID=$UUID / ext4 defaults 0 0" /etc/fstab
echo k-01 >/etc/hostname

# One interface with one address, and only the units that the tests need: on an emulated processor
# each one costs a second of every boot.
oneshot lab-network \
  'sh -c "ip link set lo up; ip link set eth0 up; ip address add 10.0.2.15/24 dev eth0"'
systemctl --quiet enable lab-network lab-gpus ssh
systemctl --quiet set-default multi-user.target
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
    e2scrub_reap.service fstrim.timer systemd-networkd.service systemd-networkd.socket \
    systemd-network-generator.service systemd-udevd.service systemd-udevd-control.socket \
    systemd-udevd-kernel.socket systemd-udev-trigger.service systemd-logind.service \
    systemd-binfmt.service proc-sys-fs-binfmt_misc.automount systemd-journal-flush.service \
    systemd-update-utmp.service systemd-update-utmp-runlevel.service systemd-sysusers.service \
    systemd-random-seed.service systemd-machine-id-commit.service systemd-pstore.service \
    kmod-static-nodes.service systemd-tmpfiles-setup-dev.service modprobe@.service \
    systemd-tmpfiles-clean.timer dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount \
    sys-kernel-tracing.mount sys-fs-fuse-connections.mount sys-kernel-config.mount getty.target dbus.service dbus.socket \
    systemd-ask-password-console.path systemd-ask-password-wall.path rpcbind.service rpcbind.socket \
    nfs-server.service nfs-client.target nfs-blkmap.service nfs-idmapd.service nfs-mountd.service \
    nfsdcld.service rpc-statd.service rpc-statd-notify.service run-rpc_pipefs.mount \
    proc-fs-nfsd.mount; do
    systemctl --quiet mask "$unit"
done
mkdir -p /etc/systemd/system-generators
for each in /lib/systemd/system-generators/*; do
    case $each in
    *fstab*) ;;
    *) ln -s /dev/null "/etc/systemd/system-generators/${each##*/}" ;;
    esac
done
: >/etc/machine-id
# A GPU server has far more memory, and with it more threads and tasks than this machine.
echo 'kernel.threads-max = 65536' >/etc/sysctl.d/60-threads.conf
mkdir -p /etc/systemd/system.conf.d
printf '[Manager]\nDefaultTasksMax=32768\n' >/etc/systemd/system.conf.d/tasks.conf

# grub-probe asks the devices beneath `/`, which is not a disk yet: this one prints what it will find.
mkdir -p /boot/grub
cp -r /usr/lib/grub/i386-pc /boot/grub/
cat >/mnt/grub-probe <<END
#!/bin/sh
case "\$*" in
*target=device*) echo /dev/vda ;;
*target=fs_uuid*) echo $UUID ;;
*target=fs*) echo ext2 ;;
*target=compatibility_hint*) echo hd1 ;;
esac
END
chmod 755 /mnt/grub-probe
mount --bind /mnt/grub-probe /usr/sbin/grub-probe
update-grub 2>/dev/null
grub-script-check /boot/grub/grub.cfg
grep -q "vmlinuz-$FIRST" /boot/grub/grub.cfg
grub-editenv /boot/grub/grubenv create
# The update is installed and not booted: GRUB starts the first kernel once more.
$UPDATING >/mnt/install.log 2>&1 || {
    tail -n 40 /mnt/install.log >&2
    exit 1
}
umount /usr/sbin/grub-probe
id() { sed -n "s/^[[:space:]]*$1 .*menuentry_id_option '\([^']*\)'.*/\1/p" /boot/grub/grub.cfg; }
grep -m 1 -q "vmlinuz-$UPDATE" /boot/grub/grub.cfg
grub-reboot "$(id submenu)>$(id menuentry | grep "gnulinux-$FIRST-advanced")"

printf '%s\n' "search --no-floppy --fs-uuid --set=root $UUID" 'set prefix=($root)/boot/grub' \
    'configfile $prefix/grub.cfg' >/mnt/early.cfg
grub-mkimage -O i386-pc -o /mnt/core.img -p '(hd1)/boot/grub' -c /mnt/early.cfg biosdisk ext2 \
    part_msdos normal linux search search_fs_uuid echo test configfile loadenv serial terminal
cp /usr/lib/grub/i386-pc/boot.img /mnt/boot.img
apt-get clean
