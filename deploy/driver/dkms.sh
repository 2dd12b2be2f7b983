# Build one kernel's nvidia module by dkms and install it; those of other kernels stay as they are.
# Variables: source (its name; empty: the one that is there of that version), version, kernel, backups.
# Needs: writers closed place lock containers package_locks noted
# shellcheck shell=sh disable=SC2154
umask 022
fail() { echo "gpu-node: nvidia for $kernel: $1" >&2; exit 1; }
tree=$(sed -n 's/^dkms_tree=//p' /etc/dkms/framework.conf 2>/dev/null | tr -d "\"'" | tail -n 1)
tree=${tree:-/var/lib/dkms}
PATH=$PATH:/usr/sbin:/sbin
# nvidia by NVIDIA's packages and Ubuntu's, nvidia-current by Debian's.
if [ -z "$source" ]; then
  for conf in /usr/src/nvidia*-"$version"/dkms.conf; do
    grep -Eqs '^BUILT_MODULE_NAME\[0\]=.?nvidia(-current)?.?[[:space:]]*$' "$conf" || continue
    source=${conf%"-$version/dkms.conf"}
    source=${source##*/}
  done
fi
source=${source:-nvidia}
note module "$source" "$version" "$kernel"
log=$tree/$source/$version/build/make.log
# On Debian the file has the name of the source: nvidia-current.
built() {
  for each in nvidia "$source"; do
    [ "$(modinfo -k "$kernel" -F version "$each" 2>/dev/null | head -n 1)" != "$version" ] || return 0
  done
  return 1
}
state() {
  dkms status -m "$source" -v "$version" -k "$kernel" 2>/dev/null | sed -n 's/.*: \([a-z]*\).*/\1/p' | head -n 1
}
# dkms regards a module as installed as long as a link leads to its build, or to nothing.
unbuild() {
  rm -rf "${tree:?}/$source/$version/${kernel:?}"
  for each in "$tree/$source/kernel-$kernel"-*; do
    [ -e "$each" ] || rm -f "$each"
  done
}
force() { dkms install --force -m "$source" -v "$version" -k "$kernel" 2>&1 </dev/null; }
# The compiler's first error, and the last lines of make.
complaint() {
  for tool in make gcc; do
    command -v $tool >/dev/null 2>&1 || printf '; no %s is installed here, which builds it' "$tool"
  done
  [ -s "$log" ] || return 0
  first=$(grep -m 1 -E '(error|Error):|: error|undefined!' "$log" | cut -c 1-300)
  printf '; %s\n--- the end of %s:\n%s' "${first:-no line of the compiler}" "$log" "$(tail -n 15 "$log")"
}
# The package of the compiler that built the kernel, where an option of that is not known to the one
# that was used: gcc's first number is in the kernel's settings, else /proc/version has it.
compiler() {
  grep -Eqs 'unrecognized command[- ]line option|unrecognized argument' "$log" || return 0
  gcc_of='s/.*gcc[^(]*([^)]*) \([0-9][0-9]*\)\..*/\1/p; s/.*gcc version \([0-9][0-9]*\)\..*/\1/p'
  theirs=$(sed -n "/^CONFIG_CC_VERSION_TEXT=/{$gcc_of;}" "/lib/modules/$kernel/build/.config" 2>/dev/null)
  [ -n "$theirs" ] || [ "$kernel" != "$(uname -r)" ] || theirs=$(sed -n "$gcc_of" /proc/version | head -n 1)
  ours=$(gcc -dumpversion 2>/dev/null)
  [ -n "$theirs" ] && [ "${ours%%.*}" != "$theirs" ] || return 0
  name=gcc-toolset-$theirs way="install gcc-$theirs: apt-get install gcc-$theirs, and run the deploy again"
  if ! command -v apt-get >/dev/null 2>&1; then
    command -v dnf >/dev/null 2>&1 || name=devtoolset-$theirs
    way="install $name-gcc, then as root: . /opt/rh/$name/enable; dkms install -m $source -v $version -k $kernel"
  fi
  printf 'the kernel was built by gcc %s, and gcc here is %s, which lacks an option: %s' "$theirs" "$ours" "$way"
}
[ -d "/usr/src/$source-$version" ] || fail "there is no /usr/src/$source-$version"
[ -e "/lib/modules/$kernel/build/Makefile" ] || fail "its headers are not installed"
if [ ! -e "$tree/$source/$version/source" ]; then
  output=$(dkms add -m "$source" -v "$version" 2>&1 </dev/null) || fail "dkms add: $(echo "$output" | tail -n 1)"
fi
case $(state) in
  (built | installed) ;;
  # dkms regards the rest of a killed run as a build.
  (*) unbuild ;;
esac
rm -f "$log"
output=$(dkms install -m "$source" -v "$version" -k "$kernel" 2>&1 </dev/null)
code=$?
if ! built; then
  # Another version is in its place, or the installed module is not the one that it built.
  if [ "$code" -ne 0 ] && [ "$(state)" != built ] && [ "$(state)" != installed ]; then
    advice=$(compiler)
    fail "dkms cannot build $source $version (exit $code): $(echo "$output" | grep -m 1 '^Error' || echo "$output" | tail -n 1); ${advice:-where this driver does not compile for this kernel, driver: {hold_kernel: true\} in the inventory has the newest kernel booted that has the module}$(complaint)"
  fi
  output=$(force)
  # When the power failed, what dkms had built may be an empty file, also where it is installed.
  built || { unbuild; output=$(force); }
  built || fail "dkms has built it, and modinfo does not find it: $(echo "$output" | tail -n 1)"
fi
all_durable "$tree/$source/$version"
all_durable "/lib/modules/$kernel"
# Packages that failing hooks of dkms have left half configured.
if command -v dpkg >/dev/null 2>&1 && [ -n "$(dpkg --audit 2>/dev/null)" ]; then
  if takes_gpus; then
    echo "gpu-node: nvidia for $kernel: packages are left half configured: their scripts reload systemd, which takes the GPUs from running containers: $containers; later: dpkg --configure -a"
  else
    (patient dpkg --configure -a) ||
      echo "gpu-node: nvidia for $kernel: packages are left half configured; later: dpkg --configure -a"
  fi
fi
