# Makes the tree one that boots: runs in it; /mnt holds the driver's stub, the lab's scripts and
# programs, and gets GRUB's boot.img and core.img. FIRST and UPDATE are releases of kernels.
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
unset TMPDIR

# What there is to install lies on the disk: the machine reaches nothing but its own loopback.
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /var/lib/apt/lists/*
(cd /srv/packages && dpkg-scanpackages --multiversion . >Packages 2>/dev/null)
echo 'deb [trusted=yes] file:/srv/packages ./' >/etc/apt/sources.list.d/lab.list
apt-get -qq update

# An initramfs of what this machine has is made in seconds even where a processor is emulated.
mkdir -p /etc/initramfs-tools/conf.d /etc/default
printf '%s\n' virtio_pci virtio_blk ext4 >/etc/initramfs-tools/modules
printf '%s\n' MODULES=list COMPRESS=gzip COMPRESSLEVEL=1 RESUME=none >/etc/initramfs-tools/conf.d/lab

driver=535.154.05
cp -r /mnt/driver "/usr/src/nvidia-$driver"
dkms add "nvidia/$driver" >/dev/null
# As NVIDIA's installer does, before the initramfs is made.
printf '%s\n' 'blacklist nouveau' 'options nouveau modeset=0' >/etc/modprobe.d/nvidia-installer-disable-nouveau.conf
echo nvidia >/etc/modules-load.d/nvidia.conf

cat >/etc/default/grub <<'END'
GRUB_DEFAULT=0
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=lab
GRUB_CMDLINE_LINUX="console=ttyS0 mitigations=off"
GRUB_TERMINAL=serial
GRUB_SERIAL_COMMAND="serial --speed=115200"
GRUB_DISABLE_OS_PROBER=true
END
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
# shellcheck disable=SC2086  # several words
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
ldconfig
install -m 755 /mnt/nvidia-smi /usr/bin/nvidia-smi
mkdir -p /usr/lib/gpu-node-lab
echo 'd /run/gpu-node-lab 0755' >/etc/tmpfiles.d/gpu-node-lab.conf
# What is said of the cards alone: the environments below it are not this machine's.
sed -n '/^cat /,/^END$/p' /mnt/cards.sh | sh -eu

NODE=k-01 MIRROR=mirror.invalid HOST_KEY='' HOST_KEY_PUBLIC='' CLIENT_KEY='' PASSWORD='' \
    sh -eu /mnt/as_found.sh
# A Debian or Ubuntu server: rpm and dnf are not there.
rm -rf /usr/bin/rpm* /usr/bin/dnf* /usr/bin/yum /etc/dnf /etc/rpm /usr/lib/rpm
# Its keys come with its first start.
rm -f /etc/ssh/ssh_host_*
sed -i "3a UUID=$UUID / ext4 defaults 0 1" /etc/fstab
echo k-01 >/etc/hostname

mkdir -p /etc/systemd/network
printf '%s\n' '[Match]' Type=ether '[Network]' DHCP=ipv4 LinkLocalAddressing=no \
    >/etc/systemd/network/10-lab.network
systemctl --quiet enable systemd-networkd ssh
systemctl --quiet disable systemd-networkd-wait-online 2>/dev/null || true
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer \
    e2scrub_reap.service fstrim.timer; do
    systemctl --quiet mask "$unit"
done
: >/etc/machine-id

# grub-probe asks the devices beneath `/`, which is no disk yet: it is told what it will find. The
# first update on the machine asks the real one.
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
umount /usr/sbin/grub-probe
grub-script-check /boot/grub/grub.cfg
grep -q "vmlinuz-$FIRST" /boot/grub/grub.cfg
grub-editenv /boot/grub/grubenv create

printf '%s\n' "search --no-floppy --fs-uuid --set=root $UUID" 'set prefix=($root)/boot/grub' \
    'configfile $prefix/grub.cfg' >/mnt/early.cfg
grub-mkimage -O i386-pc -o /mnt/core.img -p '(hd1)/boot/grub' -c /mnt/early.cfg biosdisk ext2 \
    part_msdos normal linux search search_fs_uuid echo test configfile loadenv serial terminal
cp /usr/lib/grub/i386-pc/boot.img /mnt/boot.img
apt-get clean
