# Finds the rest of a driver that was installed in another way, before packages are installed.
# shellcheck shell=sh
# another_driver: prints where it is, or that it is loaded; nothing if there is none
another_driver() {
  ldconfig=$(command -v ldconfig || echo /sbin/ldconfig)
  remains=$("$ldconfig" -p 2>/dev/null | sed -n 's/^[[:space:]]*libnvidia-ml\.so\.1 .*=> //p' | head -n 1)
  [ ! -d /sys/module/nvidia ] || remains="${remains:+$remains, }a loaded module"
  echo "$remains"
}
