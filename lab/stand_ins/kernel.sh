# What the lab's kernel has loaded, and what of it shows. Read by the stand-ins that ask it.
# shellcheck shell=sh
real=/usr/lib/gpu-node-lab/real
gpus=/usr/lib/gpu-node-lab/gpus
state=/run/gpu-node-lab
modules=/sys/module
driver=/proc/driver/nvidia
dev=/dev

is_loaded() { [ -d "$modules/$1" ]; }

# A process that has a GPU open, or the daemon that keeps them all open.
is_in_use() {
    case $1 in nvidia*) ;; *) return 1 ;; esac
    [ -n "$(find /proc/[0-9]*/fd -lname "$dev/nvidia*" 2>/dev/null | head -n 1)" ] ||
        grep -qsx nvidia-persiste /proc/[0-9]*/comm
}

# list: the content of /proc/modules; written in place, as that may be mounted over it
list() {
    for each in "$modules"/*; do
        [ ! -d "$each" ] || printf '%s %s %s - Live 0x0000000000000000%s\n' "${each##*/}" \
            "$(cat "$each/coresize")" "$(cat "$each/refcnt")" "$(sed 's/..*/ (&)/' "$each/taint")"
    done >"$state/modules"
}

# load FILE: what insmod does
load() {
    name=${1##*/}
    name=$(echo "${name%%.ko*}" | tr - _)
    is_loaded "$name" && return
    if [ "$name" = nvidia ]; then
        is_loaded nouveau && return 1
        show_gpus "$("$real/modinfo" -F version "$1")"
    fi
    mkdir -p "$modules/$name/holders"
    for field in version srcversion; do
        value=$("$real/modinfo" -F "$field" "$1")
        [ -z "$value" ] || echo "$value" >"$modules/$name/$field"
    done
    echo live >"$modules/$name/initstate"
    echo 0 >"$modules/$name/refcnt"
    wc -c <"$1" >"$modules/$name/coresize"
    case $1 in */kernel/*) echo ;; *) echo POE ;; esac >"$modules/$name/taint"
    [ "$name" != nvidia ] || load_uvm
    list
}

# load_uvm: as NVIDIA's rules of udev do once nvidia is loaded. Any device that can be opened stands
# for the one of CUDA.
load_uvm() {
    mkdir -p "$modules/nvidia_uvm/holders"
    echo live >"$modules/nvidia_uvm/initstate"
    for field in refcnt coresize; do echo 0 >"$modules/nvidia_uvm/$field"; done
    echo POE >"$modules/nvidia_uvm/taint"
    ln -sf null "$dev/nvidia-uvm"
}

# unload NAME: what rmmod does; the caller has checked that it is unused
unload() {
    rm -rf "${modules:?}/$1"
    case $1 in nvidia*) rm -rf "$modules/nvidia_uvm" "$dev/nvidia-uvm" ;; esac
    [ "$1" != nvidia ] || rm -rf "$driver" "$dev"/nvidia[0-9]* "$dev/nvidiactl" "$state/persistence"
    list
}

# show_gpus VERSION: the driver's files in /proc, and its devices
show_gpus() {
    mkdir -p "$driver/gpus"
    {
        echo "NVRM version: NVIDIA UNIX x86_64 Kernel Module  $1  Thu Dec 28 15:37:48 UTC 2023"
        echo 'GCC version:  gcc version 4.8.5 20150623 (Red Hat 4.8.5-44) (GCC)'
    } >"$driver/version"
    : >"$dev/nvidiactl"
    chmod 666 "$dev/nvidiactl"
    [ -r "$gpus" ] || return 0
    while IFS= read -r line; do
        bus=0000${line#*, 00000000}
        bus=$(echo "${bus%%,*}" | tr A-F a-f)
        mkdir -p "$driver/gpus/$bus"
        echo "$line" | awk -F', ' -v bus="$bus" '{
            printf "Model: \t\t %s\nIRQ:   \t\t %d\nGPU UUID: \t %s\n", $2, 194 + $1, $3
            printf "Video BIOS: \t 92.00.25.00.08\nBus Type: \t PCIe\nDMA Size: \t 47 bits\n"
            printf "DMA Mask: \t 0x7fffffffffff\nBus Location: \t %s\n", bus
            printf "Device Minor: \t %s\nGPU Excluded:\t No\n", $1
        }' >"$driver/gpus/$bus/information"
        : >"$dev/nvidia${line%%,*}"
        chmod 666 "$dev/nvidia${line%%,*}"
    done <"$gpus"
}

# image FILE K: the boot image of a kernel. It contains the node's modprobe.d, and nouveau unless
# that is blacklisted: it is loaded before the disk is mounted.
image() {
    work=$(mktemp -d /var/tmp/dracut.XXXXXX)
    mkdir -p "$work/etc/modprobe.d" "$work/usr/lib/modules/$2/kernel"
    cp /etc/modprobe.d/* "$work/etc/modprobe.d" 2>/dev/null
    nouveau=$("$real/modinfo" -k "$2" -n nouveau 2>/dev/null)
    if [ -n "$nouveau" ] && ! grep -qs '^[[:space:]]*blacklist[[:space:]]*nouveau' /etc/modprobe.d/*.conf; then
        cp "$nouveau" "$work/usr/lib/modules/$2/kernel"
    fi
    (cd "$work" && find . | LC_ALL=C sort | cpio --quiet -o -H newc) | gzip -n >"$1.new" &&
        mv -f "$1.new" "$1"
    status=$?
    rm -rf "$work"
    return $status
}
