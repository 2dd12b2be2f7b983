# A Debian or Ubuntu server straight from its installer: rpm and dnf are not installed.
rm -f /usr/bin/rpm* /usr/bin/dnf* /usr/bin/yum
rm -rf /etc/dnf /etc/rpm /usr/lib/rpm
put_stand_in /usr/sbin/update-initramfs
stand_in lsinitrd >/usr/bin/lsinitramfs
chmod 755 /usr/bin/lsinitramfs

# As Debian's installer writes it: on this machine alone the name means the machine itself.
printf '127.0.1.1   %s\n' "$NODE" >>/etc/hosts

rm -f /etc/apt/sources.list.d/*
echo "deb [trusted=yes] http://$MIRROR/deb-base/ ./" >/etc/apt/sources.list
dpkg --purge --force-depends dkms >/dev/null 2>&1
dpkg -i /mnt/deb-base/linux-image-*.deb >/dev/null
update-initramfs -u -k all >/dev/null
mkdir -p /boot/grub
printf '%s\n' 'GRUB_DEFAULT=0' 'GRUB_TIMEOUT=5' >/etc/default/grub
for path in /boot/vmlinuz-*; do
    kernel=${path#/boot/vmlinuz-}
    printf "menuentry 'Debian GNU/Linux' --class debian {\n\tlinux\t%s root=/dev/sda1 ro quiet\n" "$path"
    printf '\tinitrd\t/boot/initrd.img-%s\n}\n' "$kernel"
done >/boot/grub/grub.cfg
