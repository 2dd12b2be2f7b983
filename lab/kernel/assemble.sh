# Assembles the disks from the nodes' tree, in a mount namespace of its own.
# $1: the tree, $2: where the disks go, $3: what install.sh needs, and gets to see as /mnt,
# $4 $5: the flavours of kernel, the one that is installed and the one that is its update; UPDATING
# is the command that installs the update, without the release at its end.
tree=$1 made=$2 scratch=$3 first=$4 update=$5
work=$made/work
root=$work/root
mkdir -p "$work/upper" "$work/work" "$root"
mount -t overlay -o "lowerdir=$tree,upperdir=$work/upper,workdir=$work/work" kernel "$root"

# The tree has headers that belong to no kernel; here each kernel's own come from apt.
chroot "$root" sh -euc '
rm -rf /usr/lib/gpu-node-lab/headers
dpkg-query --show --showformat "\${Package}\n" | grep -E "^linux-(headers|kbuild|compiler)-" |
    xargs dpkg --purge --force-depends
' >/dev/null

# apt is this machine's, with its proxies; sources and what is installed are the tree's.
packages=$root/srv/packages
mkdir -p "$packages/partial"
apt() {
    command=$1
    shift
    "$command" -qq -o Dir="$root" -o Dir::State::status="$root/var/lib/dpkg/status" \
        -o Dir::Cache::archives="$packages" -o APT::Sandbox::User=root \
        -o Debug::NoLocking=true -o APT::Install-Recommends=false "$@"
}
release() {
    apt apt-cache depends "linux-image-$1" |
        sed -n 's/^ *Depends: linux-image-\([0-9][^ ]*\)$/\1/p' | head -n 1
}
apt apt-get update -o APT::Update::Error-Mode=any
first=$(release "$first") update=$(release "$update")
test "$first"
test "$update"
# shellcheck disable=SC2086  # a list of packages
set -- $BOOT
for release in "$first" "$update"; do
    set -- "$@" "linux-image-$release" "linux-headers-$release"
done
apt apt-get install --yes --download-only "$@" >/dev/null
rm -rf "$packages/partial" "$packages/lock"
printf '%s\n' "$first" "$update" >"$made/kernels"

mount --bind "$scratch" "$root/mnt"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
FIRST=$first UPDATE=$update UPDATING=$UPDATING$update chroot "$root" /bin/sh -eu /mnt/install.sh
umount --recursive "$root/dev"
umount "$root/proc" "$root/mnt"

cp "$root/boot/vmlinuz-$first" "$made/vmlinuz"

# The first disk is one that a BIOS starts from, and holds nothing but GRUB's core.
cat "$scratch/boot.img" "$scratch/core.img" >"$made/boot.raw"
truncate --size 1M "$made/boot.raw"
# What GRUB of every release reads; the newest e2fsprogs has features that it does not.
features=none,has_journal,ext_attr,resize_inode,dir_index,filetype,extent,64bit,flex_bg
features=$features,sparse_super,large_file,huge_file,dir_nlink,extra_isize
mke2fs -q -t ext4 -O "$features" -U "$UUID" -L root -d "$root" "$made/root.raw" 4G
umount "$root"
rm -rf "$work"
cp "$scratch/key" "$scratch/key.pub" "$scratch/host_key.pub" "$made"
chmod 644 "$made"/*
chmod 600 "$made/key"
