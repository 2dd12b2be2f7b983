command -v nvidia-smi >/dev/null 2>&1 || { echo absent; exit 0; }
# nvidia-smi would load the module.
[ -d /sys/module/nvidia ] || { printf 'code 9\nthe nvidia module is not loaded\n'; exit 0; }
output=$(nvidia-smi nvlink -s 2>&1); code=$?
echo "code $code"
echo "$output"
