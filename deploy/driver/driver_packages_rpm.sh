# Install what builds the nvidia module: dkms, and the headers of exactly these kernels.
# Variables: manager (dnf or yum), kernels (as uname -r prints them; may be empty), dkms (yes or no), backups.
# Needs: writers closed place lock proxy containers package_locks no_answer noted
# shellcheck shell=sh disable=SC2154,SC2086
set -uf
LC_ALL=C; export LC_ALL
umask 022
note packages
fail() { echo "gpu-node: driver: $1" >&2; exit 1; }
reason() {
  why=$(echo "$1" | grep -E 'Curl error|Status code|[Cc]onnection|[Cc]ould not|[Cc]annot|No package|Unable to find|Nothing to do|Errno' | head -n 1)
  echo "${why:-$1}" | grep -v '^[[:space:]]*$' | tail -n 1 | sed 's/^[ -]*//'
}
# The name of the kernel's package gives the name of its headers: kernel-core has kernel-devel.
devel() {
  name=
  for image in "/boot/vmlinuz-$1" "/lib/modules/$1/vmlinuz"; do
    # For a file of no package, rpm prints a message instead of a name.
    owner=$(rpm -qf --qf '%{NAME}\n' "$image" 2>/dev/null) && name=$(echo "$owner" | head -n 1) && break
  done
  case $name in (*kernel*) ;; (*) name=kernel ;; esac
  release=${1%+debug}
  echo "${name%-core}-devel-${release%.debug}"
}
lacks_dkms() { [ "$dkms" = yes ] && ! command -v dkms >/dev/null 2>&1; }
! lacks_dkms || refuse_reload 'the dkms package'
# rpm cannot be queried either while its database is locked.
wait_for_locks
# Headers first: dkms would install the newest ones, which match no installed kernel. Without -q, which
# hides that a repository could not be read.
for kernel in $kernels; do
  [ ! -e "/lib/modules/$kernel/build/Makefile" ] || continue
  package=$(devel "$kernel")
  verb=install
  ! rpm -q "$package" >/dev/null 2>&1 || verb=reinstall
  # An exclude of kernel* is about other kernels; these headers are for an installed one.
  line=$(grep -nE '^(exclude|excludepkgs) *=.*kernel' /etc/yum.conf /etc/dnf/dnf.conf 2>/dev/null | head -n 1)
  [ -z "$line" ] || echo "gpu-node: driver: $line: passed over for $package, which is of a kernel that is installed"
  patient $manager -y --disableexcludes=all $verb "$package" || :
  [ -e "/lib/modules/$kernel/build/Makefile" ] || fail "$(no_answer "$output")the headers of $kernel are not available: no $package in the repositories of this node: $(reason "$output"); where they have moved on, an archive of the release (vault) has it; or update the kernel, or remove this one"
done
if lacks_dkms; then
  patient $manager -y install dkms || :
  command -v dkms >/dev/null 2>&1 || fail "$(no_answer "$output")dkms cannot be installed: $(reason "$output"); on CentOS and Rocky it is in EPEL: $manager install epel-release"
fi
