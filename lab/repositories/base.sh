# The distributions' own packages: kernels, what modules are built with, and dkms; and the driver
# as dkms left it on an rpm node. Read by build.sh at its end; the tree is a copy to write to.
headers=$(readlink /usr/lib/gpu-node-lab/headers)
mkdir -p rpm-base deb-base driver

# nouveau comes with every kernel of the rpm family.
mkdir -p home/nouveau
cp nouveau.c home/nouveau
echo 'obj-m := nouveau.o' >home/nouveau/Makefile
make -s -C "$headers" M=/mnt/home/nouveau modules
xz home/nouveau/nouveau.ko

# kernel FOLDER K: what a kernel's own package has
kernel() {
    mkdir -p "$1/boot" "$1/lib/modules/$2/kernel/lib"
    printf 'a stub of Linux version %s\n' "$2" >"$1/boot/vmlinuz-$2"
    for list in order builtin builtin.modinfo; do : >"$1/lib/modules/$2/modules.$list"; done
}
# devel FOLDER NAME K: what leads to the headers, by the place that a family has for them
devel() {
    mkdir -p "$1/usr/src/$2"
    ln -s "$headers"/.[!.]* "$headers"/* "$1/usr/src/$2"
}
for release in 1160.71.1.el7 1160.119.1.el7; do
    k=3.10.0-$release.x86_64
    root=/mnt/home/kernel/$k
    kernel "$root/files" "$k"
    mkdir -p "$root/files/lib/modules/$k/kernel/drivers/gpu/drm/nouveau"
    cp home/nouveau/nouveau.ko.xz "$root/files/lib/modules/$k/kernel/drivers/gpu/drm/nouveau"
    depmod -b "$root/files" "$k"
    ln -s "/usr/src/kernels/$k" "$root/files/lib/modules/$k/build"
    devel "$root/devel" "kernels/$k"
    rpm_build --define "number $release" --define "of_kernel $root/files" \
        --define "of_devel $root/devel" kernel.spec
done
# What of dkms is no documentation, and no other program's.
dpkg -L dkms | while read -r file; do
    [ -d "$file" ] || [ ! -e "$file" ] || echo "$file"
done | grep -Ev '^/usr/share/(doc|apport|lintian|man)/' >home/dkms
version=$(dpkg-query -W -f '${Version}' dkms)
rpm_build --define "dkms ${version%%-*}" --define 'list /mnt/home/dkms' dkms.spec
# sources FOLDER VERSION: the driver's, as its packages have them
sources() {
    mkdir -p "$1/usr/src/nvidia-$2" "$1/etc/modprobe.d"
    for file in dkms.conf Makefile nvidia.c; do
        sed "s/535\.154\.05/$2/g" $file >"$1/usr/src/nvidia-$2/$file"
    done
    echo 'blacklist nouveau' >"$1/etc/modprobe.d/nvidia.conf"
}
for version in 535.154.05 535.183.01; do
    root=/mnt/home/driver-rpm-$version
    sources "$root" "$version"
    mkdir -p "$root/usr/lib64" "$root/usr/bin"
    for name in libnvidia-ml libcuda; do
        cp "$name.so" "$root/usr/lib64/$name.so.$version"
        ln -s "$name.so.$version" "$root/usr/lib64/$name.so.1"
    done
    cp nvidia-smi "$root/usr/bin"
    chmod 755 "$root/usr/bin/nvidia-smi"
    rpm_build --define "driver $version" --define "of_driver $root" driver.spec
done
rpm_build pdsh.spec
mv home/rpm/RPMS/*/*.rpm rpm-base
rpmsign --define '__gpg /usr/bin/gpg' --define '_gpg_name gpu-node lab repository' \
    --addsign rpm-base/*.rpm >/dev/null
createrepo_c --quiet rpm-base

k=6.1.0-18-amd64
root=/mnt/home/deb/$k
kernel "$root/image" "$k"
depmod -b "$root/image" "$k"
deb deb-base "linux-image-$k" 6.1.76-1 "$root/image"
devel "$root/headers" "linux-headers-$k"
mkdir -p "$root/headers/lib/modules/$k" "$root/headers/DEBIAN"
ln -s "/usr/src/linux-headers-$k" "$root/headers/lib/modules/$k/build"
cat >"$root/headers/DEBIAN/postinst" <<END
#!/bin/sh
[ "\$1" != configure ] || [ ! -d /etc/kernel/header_postinst.d ] ||
    run-parts --report --exit-on-error --arg=$k /etc/kernel/header_postinst.d
END
chmod 755 "$root/headers/DEBIAN/postinst"
deb deb-base "linux-headers-$k" 6.1.76-1 "$root/headers"
# again NAME: a package as it was installed, packed again; `home/NAME` lists its files
again() {
    root=/mnt/home/deb/$1
    mkdir -p "$root/DEBIAN"
    tar -C / -c -T "home/$1" | tar -C "$root" -x
    dpkg-query -s "$1" | sed -e '/^Status:/d' -e '/^Conffiles:/,/^[^ ]/{/^Conffiles:/d;/^ /d}' \
        >"$root/DEBIAN/control"
    for script in conffiles preinst postinst prerm postrm; do
        [ ! -e "/var/lib/dpkg/info/$1.$script" ] || cp "/var/lib/dpkg/info/$1.$script" "$root/DEBIAN"
    done
    dpkg-deb --build --root-owner-group -Znone "$root" deb-base >/dev/null
}
mkdir -p home/deb/dkms/var/lib/dkms
again dkms
echo /usr/bin/rsync >home/rsync
again rsync
# driver VERSION: the driver by Ubuntu's names, whose postinst has dkms build it, as theirs does
driver() {
    where=usr/lib/x86_64-linux-gnu
    root=home/deb/driver-$1
    mkdir -p "$root/compute/$where" "$root/compute/DEBIAN" "$root/utils/usr/bin" "$root/dkms/DEBIAN"
    for name in libnvidia-ml libcuda; do
        cp "$name.so" "$root/compute/$where/$name.so.$1"
        ln -s "$name.so.$1" "$root/compute/$where/$name.so.1"
    done
    echo 'activate-noawait ldconfig' >"$root/compute/DEBIAN/triggers"
    deb deb-base libnvidia-compute-535 "$1-0ubuntu1" "$root/compute"
    cp nvidia-smi "$root/utils/usr/bin"
    chmod 755 "$root/utils/usr/bin/nvidia-smi"
    deb deb-base nvidia-utils-535 "$1-0ubuntu1" "$root/utils" 'libnvidia-compute-535'
    sources "$root/dkms" "$1"
    printf '#!/bin/sh\nset -e\n[ "$1" != configure ] || /usr/lib/dkms/common.postinst nvidia %s\n' "$1" \
        >"$root/dkms/DEBIAN/postinst"
    printf '#!/bin/sh\ndkms remove -m nvidia -v %s --all || :\n' "$1" >"$root/dkms/DEBIAN/prerm"
    chmod 755 "$root/dkms/DEBIAN/postinst" "$root/dkms/DEBIAN/prerm"
    # What it needs of the library is a version at least, so that apt alone would take the newest.
    deb deb-base nvidia-dkms-535 "$1-0ubuntu1" "$root/dkms" \
        "dkms, libnvidia-compute-535 (>= $1-0ubuntu1)"
}
driver 535.154.05
driver 535.183.01
(cd deb-base && dpkg-scanpackages --multiversion . >Packages 2>/dev/null)

# The driver: its library of another folder, and its sources, added, built and installed by dkms
# as on an rpm node that runs the older kernel.
k=3.10.0-1160.71.1.el7.x86_64
for name in libnvidia-ml libcuda; do cp "$name.so" "driver/$name.so.535.154.05"; done
printf 'ID="centos"\nID_LIKE="rhel fedora"\n' >home/os-release
ln -sf /mnt/home/os-release /etc/os-release
rpm -i --dbpath /mnt/home/db --nodeps --noscripts --nosignature rpm-base/kernel-*"${k#*-}".rpm \
    rpm-base/kernel-devel-*"${k#*-}".rpm
mkdir /usr/src/nvidia-535.154.05
cp dkms.conf Makefile nvidia.c /usr/src/nvidia-535.154.05
for step in add build install; do
    dkms "$step" -m nvidia -v 535.154.05 -k "$k" >home/dkms.log 2>&1 || { cat home/dkms.log >&2; exit 1; }
done
tar -C / -cf driver/built.tar usr/src/nvidia-535.154.05 var/lib/dkms "usr/lib/modules/$k"
