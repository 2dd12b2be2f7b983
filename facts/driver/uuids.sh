# The driver's UUIDs have question marks until a program has woken the GPU. Without a loaded module
# nvidia-smi would load it.
uuids=$(cat /proc/driver/nvidia/gpus/*/information 2>/dev/null |
  sed -n 's/^GPU UUID:[[:space:]]*//p')
case $uuids in
  ('' | *\?*)
    [ ! -d /sys/module/nvidia ] || ! command -v nvidia-smi >/dev/null 2>&1 ||
      uuids=$(nvidia-smi -L 2>/dev/null | sed -n 's/.*(UUID: \(GPU-[^)]*\)).*/\1/p') ;;
esac
[ -z "$uuids" ] || printf '%s\n' "$uuids"
