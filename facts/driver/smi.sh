# nvidia-smi can hang for minutes if the module has a problem: hence the time limit. It would load
# the module where that is not loaded; a report changes nothing. $kept: the first level of the keys
# that are read, in lower case, between bars.
command -v nvidia-smi >/dev/null 2>&1 || { echo absent; exit 0; }
[ -d /sys/module/nvidia ] || { echo skipped; exit 0; }
# by_key: prints `nvidia-smi -q` with a line for each GPU and each key: `FB Memory Usage/Total: 40960 MiB`.
# Processes come last in a GPU's lines, and any user gives a process its name: of them nothing is
# read. Fails if there are more GPUs than it says at its head.
by_key() {
  awk -v kept="$kept" '
    /^GPU [0-9A-Fa-f]+:[0-9A-Fa-f]+:[0-9A-Fa-f]+\.[0-9A-Fa-f]$/ { gpus++; ended = depth = 0; print; next }
    gpus && /^ +Processes/ { ended = 1 }
    /^(WARNING: infoROM is corrupted at gpu|Unable to determine the device handle for GPU)[0-9A-Za-z:. ]*$/ {
      print; next
    }
    ended || /^(=+NVSMI LOG=+|(Timestamp|CUDA Version) +:.*| *)$/ { next }
    /^Attached GPUs +: [0-9]+$/ { most = $NF; next }
    /^Driver Version +: / { print "Driver Version: " $NF; next }
    /^[^ ]/ { print; next }
    {
      indent = match($0, /[^ ]/)
      key = substr($0, indent)
      has = match(key, / *: /)
      value = has ? substr(key, RSTART + RLENGTH) : ""
      if (has) key = substr(key, 1, RSTART - 1)
      sub(/ +$/, "", key)
      while (depth && indents[depth] >= indent) depth--
      path = depth ? paths[depth] "/" key : key
      if (!has) { indents[++depth] = indent; paths[depth] = path; next }
      top = path
      sub(/\/.*/, "", top)
      if (index(kept, "|" tolower(top) "|")) print path ": " value
    }
    END { exit most != "" && gpus > most }'
}
output=$(nvidia-smi -q 2>&1); code=$?
if listed=$(printf '%s\n' "$output" | by_key); then output=$listed
else # a process has the lines of a GPU in its name: each GPU is asked alone, up to its processes
  output=$(for each in /proc/driver/nvidia/gpus/*; do
    nvidia-smi -q -i "${each##*/}" 2>&1 | sed '/^ *Processes/,$d'
  done | by_key)
fi
echo "code $code"
printf '%s\n' "$output"
# Last, and with a time limit: the training user may stop it.
cuda_init
