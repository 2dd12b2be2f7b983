# Install what builds the nvidia module: dkms, and the headers of exactly these kernels.
# Variables: manager, kernels (as uname -r prints them; may be empty), dkms (yes or no), backups.
# Needs: writers closed place sent lock proxy containers package_locks no_answer noted transaction_deb transaction_rpm transaction
# shellcheck shell=sh disable=SC2034,SC2154
set -f
umask 022
note packages
fail() { echo "gpu-node: driver: $1" >&2; exit 1; }
# headers KERNEL: sets named and package; the name of the kernel's package gives the name of its headers
headers() {
  if [ "$manager" = apt-get ]; then
    named=$(dpkg-query -S "/boot/vmlinuz-$1" 2>/dev/null | head -n 1 | sed 's/:.*//')
    case $named in
      (proxmox-kernel-* | pve-kernel-*) named=$(echo "$named" | sed 's/-kernel-/-headers-/; s/-signed$//') ;;
      (*) named=linux-headers-$1 ;;
    esac
    package=$named
    return
  fi
  # kernel-core has kernel-devel. For a file of no package, rpm prints a message instead of a name.
  named=
  for image in "/boot/vmlinuz-$1" "/lib/modules/$1/vmlinuz"; do
    owner=$(rpm -qf --qf '%{NAME}\n' "$image" 2>/dev/null) && named=$(echo "$owner" | head -n 1) && break
  done
  case $named in (*kernel*) ;; (*) named=kernel ;; esac
  named=${named%-core}-devel
  package=${1%+debug}
  package=$named-${package%.debug}
}
why() {
  output="$output
$fetched"
  echo "$(no_answer "$output")$1: $(reason "$output")"
}
lacks_dkms() { [ "$dkms" = yes ] && ! command -v dkms >/dev/null 2>&1; }
! lacks_dkms || refuse_reload 'the dkms package'
begin
# One by one: nothing is installed if one of several packages is not available. If a module cannot be compiled,
# the hooks of dkms fail, and so does apt; the build reports that. Here only the files count. Headers first: dkms
# would install the newest ones, which match no installed kernel.
for kernel in $kernels; do
  [ ! -e "/lib/modules/$kernel/build/Makefile" ] || continue
  headers "$kernel"
  repair "$package"
  # An exclude of kernel* is about other kernels; these headers are for an installed one.
  may_lift=yes
  transact "$package" || :
  [ -e "/lib/modules/$kernel/build/Makefile" ] ||
    fail "$(why "the headers of $kernel are not available: no $package in the repositories of this node"); where they have moved on, an archive of the release (as CentOS's vault) has it; or update the kernel, or remove this one$unchanged"
done
if lacks_dkms; then
  named=dkms verb=install options='' may_lift=no lifted=''
  transact dkms || :
  command -v dkms >/dev/null 2>&1 ||
    fail "$(why 'dkms cannot be installed'); on CentOS and Rocky it is in EPEL: $manager install epel-release$unchanged"
fi
