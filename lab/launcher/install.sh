# Assembles the layer, in a mount namespace of its own.
# $1: the tree, $2: where the layer goes, $3: what pip installs, $4...: packages.
tree=$1 made=$2 wheels=$3
shift 3
root=$made/root
mkdir -p "$made/upper" "$made/work" "$root"
mount -t overlay -o "lowerdir=$tree,upperdir=$made/upper,workdir=$made/work" launcher "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"

# apt is this machine's, with its proxies; sources and what is installed are the tree's.
apt() {
    apt-get -qq -o Dir="$root" -o Dir::State::status="$root/var/lib/dpkg/status" \
        -o APT::Sandbox::User=root -o Debug::NoLocking=true -o APT::Install-Recommends=false "$@"
}
apt update -o APT::Update::Error-Mode=any
apt install --yes --download-only "$@" >/dev/null
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
inside() { chroot "$root" env -u TMPDIR DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"; }
inside apt-get -qq install --yes --no-install-recommends -o Dpkg::Use-Pty=0 \
    -o Dpkg::Options::=--force-unsafe-io "$@" >"$made/install.log" 2>&1 || {
    tail -n 20 "$made/install.log" >&2
    exit 1
}
inside apt-get clean
rm -rf "$root/usr/sbin/policy-rc.d" "$root"/var/lib/apt/lists/* "$root/var/log/apt"

# Pure Python alone: what it would compile takes a GPU's compiler.
cp -r "$wheels" "$root/tmp/wheels"
inside env DS_BUILD_OPS=0 PIP_CONFIG_FILE=/dev/null PIP_FIND_LINKS= python3 -m pip install -qq \
    --no-index --no-build-isolation --no-deps --break-system-packages --root-user-action=ignore \
    --find-links /tmp/wheels --disable-pip-version-check deepspeed hjson ninja pynvml
rm -rf "$root/tmp/wheels"
inside env DS_ACCELERATOR=cuda python3 -c 'import torch.distributed as d, deepspeed; assert d.is_available()' >/dev/null

umount --recursive "$root/dev"
umount "$root/proc" "$root"
rm -rf "$made/work" "$made/root" "$made/install.log"
