# Install what builds the nvidia module: dkms, and the headers of exactly these kernels.
# Variables: kernels (as uname -r prints them; may be empty), dkms (yes or no), backups.
# Needs: writers closed place lock proxy containers package_locks no_answer noted
# shellcheck shell=sh disable=SC2154,SC2086
set -uf
LC_ALL=C; export LC_ALL
DEBIAN_FRONTEND=noninteractive; export DEBIAN_FRONTEND
umask 022
note packages
fail() { echo "gpu-node: driver: $1" >&2; exit 1; }
reason() { echo "$1" | grep -E '^ ?(E|W|Err)[: ]' | tail -n 1 | cut -c 1-300; }
# The name of the kernel's package gives the name of its headers.
headers() {
  name=$(dpkg-query -S "/boot/vmlinuz-$1" 2>/dev/null | head -n 1 | sed 's/:.*//')
  case $name in
    (proxmox-kernel-* | pve-kernel-*) echo "$name" | sed 's/-kernel-/-headers-/; s/-signed$//' ;;
    (*) echo "linux-headers-$1" ;;
  esac
}
lacks_dkms() { [ "$dkms" = yes ] && ! command -v dkms >/dev/null 2>&1; }
! lacks_dkms || refuse_reload 'the dkms package'
# apt also configures these whenever it installs something.
[ -z "$(dpkg --audit 2>/dev/null)" ] || refuse_reload 'packages that are half configured'
patient apt-get -q update || :
fetched=$output
# One by one: apt installs nothing if one of several packages is not available. If a module cannot
# be compiled, the hooks of dkms fail, and so does apt; the build reports that. Here only the files
# count.
install() {
  patient apt-get -q -y --no-install-recommends --no-remove --reinstall \
    -o Dpkg::Options::=--force-confold install "$1" || :
}
why() { reason "$output
$fetched"; }
first() { no_answer "$output
$fetched"; }
for kernel in $kernels; do
  [ ! -e "/lib/modules/$kernel/build/Makefile" ] || continue
  install "$(headers "$kernel")"
  [ -e "/lib/modules/$kernel/build/Makefile" ] ||
    fail "$(first)the headers of $kernel are not available: $(why); there is no $(headers "$kernel") in the repositories of this node; update the kernel, or remove this one"
done
if lacks_dkms; then
  install dkms
  command -v dkms >/dev/null 2>&1 || fail "$(first)dkms cannot be installed: $(why)"
fi
