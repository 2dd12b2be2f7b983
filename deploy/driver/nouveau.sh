# Disable nouveau: blacklist it, rebuild the initramfs of these kernels, unload it.
# Variables: kernels (may be empty), later (yes: a reboot follows), backups.
# Needs: writers closed place lock containers in_use noted
# Disturbs: reload
# shellcheck shell=sh disable=SC2154,SC2015
umask 022
file=/etc/modprobe.d/gpu-node-nouveau.conf
fail() { echo "gpu-node: nouveau: $1" >&2; exit 1; }
put "$file" <<END || fail "$file cannot be written; nothing was changed"
# Written by gpu-node: nouveau would take the GPUs before nvidia does.
blacklist nouveau
options nouveau modeset=0
END
# Files of a killed run; the program that makes the image may add a suffix to the name while it
# writes.
rm -f /boot/.initramfs-*.img.gpu-node /boot/.initramfs-*.img.gpu-node.*
for kernel in $kernels; do
  if command -v update-initramfs >/dev/null 2>&1; then
    output=$(update-initramfs -u -k "$kernel" 2>&1 </dev/null) ||
      fail "the initramfs of $kernel cannot be made: $(echo "$output" | tail -n 1); the old one is there"
  elif command -v dracut >/dev/null 2>&1; then
    image=/boot/initramfs-$kernel.img
    new=/boot/.initramfs-$kernel.img.gpu-node
    # An image that is not only for this host does not include the blacklist: leave nouveau out of
    # it.
    echo 'omit_drivers+=" nouveau "' | put /etc/dracut.conf.d/gpu-node-nouveau.conf ||
      fail "/etc/dracut.conf.d cannot be written; no initramfs was changed"
    # dracut overwrites the existing image, and a full disk would leave an incomplete one.
    output=$(dracut --force "$new" "$kernel" 2>&1 </dev/null) && [ -s "$new" ] &&
      lsinitrd "$new" >/dev/null 2>&1 && place "$new" "$image" ||
      { rm -f "$new" "$new".*; fail "the initramfs of $kernel cannot be made: $(echo "$output" | tail -n 1); the old one is there"; }
  else
    fail "neither update-initramfs nor dracut is here; make the initramfs of $kernel anew"
  fi
done
[ -d /sys/module/nouveau ] || exit 0
output=$(modprobe -r nouveau 2>&1) || [ "$later" = yes ] ||
  fail "it cannot be unloaded (does the console use it?): $output; allow a reboot: --data reboot=true"
