# NVIDIA's installer leaves its uninstaller. A module that belongs to no package is from the
# installer, or from dkms.
PATH=$PATH:/usr/sbin:/sbin; export PATH
for f in /usr/bin/nvidia-uninstall /usr/bin/nvidia-installer; do
  [ ! -e "$f" ] || printf 'installer %s\n' "$f"
done
owned() {
  if [ -s /var/lib/dpkg/status ] && command -v dpkg-query >/dev/null 2>&1; then
    dpkg-query -S "$1" >/dev/null 2>&1 || dpkg-query -S "/usr$1" >/dev/null 2>&1
  else
    rpm -qf "$1" >/dev/null 2>&1
  fi
}
for f in /lib/modules/*/kernel/drivers/video/nvidia.ko*; do
  [ ! -e "$f" ] || owned "$f" || printf 'module %s\n' "$f"
done
