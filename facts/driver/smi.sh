# nvidia-smi can hang for minutes if the module has a problem: hence the time limit. Drivers before
# 510 do not know compute_cap. nvidia-smi would load the module where it is not loaded; a report
# changes nothing.
command -v nvidia-smi >/dev/null 2>&1 || { echo absent; exit 0; }
[ -d /sys/module/nvidia ] || { echo skipped; exit 0; }
ask() { nvidia-smi --query-gpu="$1" --format=csv,noheader,nounits 2>&1; }
common=name,uuid,memory.total,persistence_mode,ecc.mode.current,driver_version,compute_mode
output=$(ask $common,compute_cap); code=$?
case $output in *'not a valid field'*) output=$(ask $common); code=$? ;; esac
echo "code $code"
echo "$output"
# Last, and with a time limit: the training user may stop it.
cuda_init
