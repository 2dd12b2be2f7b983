# What is left of a driver that came another way: to be asked before packages are put beside it.
# shellcheck shell=sh
# another_driver: where it lies, or that it is loaded; nothing where there is none
another_driver() {
  ldconfig=$(command -v ldconfig || echo /sbin/ldconfig)
  remains=$("$ldconfig" -p 2>/dev/null | sed -n 's/^[[:space:]]*libnvidia-ml\.so\.1 .*=> //p' | head -n 1)
  [ ! -d /sys/module/nvidia ] || remains="${remains:+$remains, }a loaded module"
  echo "$remains"
}
