# nvidia-smi can hang for minutes if the module has a problem: hence the time limit. It would load
# the module where that is not loaded; a report changes nothing. $kept: the first level of the keys
# that are read, in lower case, between bars.
command -v nvidia-smi >/dev/null 2>&1 || { echo absent; exit 0; }
[ -d /sys/module/nvidia ] || { echo skipped; exit 0; }
# by_key: prints `nvidia-smi -q` with a line for each GPU and each key: `FB Memory Usage/Total: 40960 MiB`.
# Any user gives a process its name, which may have the lines of a GPU in it. So of Processes, which
# come last in a GPU's lines, nothing is read; it fails if a slot is there twice, or is not one of
# $slots; and messages behind processes count only where nvidia-smi ended with a warning.
by_key() {
  awk -v kept="$kept" -v slots="$slots" -v version="$version" -v code="$code" '
    function note(text) {
      if (!match(text, /[0-9A-Fa-f]+:[0-9A-Fa-f]+:[0-9A-Fa-f]+\.[0-9A-Fa-f]/)) return
      text = tolower(substr(text, RSTART, RLENGTH))
      sub(/^0+/, "", text)
      if (seen[text]++ || (listed && !(text in known))) is_forged = 1
    }
    BEGIN {
      listed = split(tolower(slots), names, " ")
      for (i = 1; i <= listed; i++) { sub(/^0+/, "", names[i]); known[names[i]] = 1 }
      if (version != "") print "Driver Version: " version
    }
    /^GPU [0-9A-Fa-f]+:[0-9A-Fa-f]+:[0-9A-Fa-f]+\.[0-9A-Fa-f]$/ {
      note($2); gpus++; ended = depth = 0; print; next
    }
    gpus && /^ +Processes/ { ended = 1 }
    /^(WARNING: infoROM is corrupted at gpu|Unable to determine the device handle for GPU)[0-9A-Za-z:. ]*$/ {
      if ($1 == "Unable") note($0)
      if (!ended || code != 0) print
      next
    }
    ended || /^(=+NVSMI LOG=+|(Timestamp|CUDA Version) +:.*| *)$/ { next }
    /^Attached GPUs +: [0-9]+$/ { if (!gpus) most = $NF; next }
    /^Driver Version +: / { if (!gpus && version == "") print "Driver Version: " $NF; next }
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
    END { exit is_forged || (most != "" && gpus > most) }'
}
slots=
for each in /proc/driver/nvidia/gpus/*; do [ ! -d "$each" ] || slots="$slots ${each##*/}"; done
version=$(awk '/^NVRM version:/ { for (i = 3; i <= NF; i++) if ($i ~ /^[0-9]+(\.[0-9]+)+$/) { print $i; exit } }' \
  /proc/driver/nvidia/version 2>/dev/null)
output=$(nvidia-smi -q 2>&1); code=$?
if listed=$(printf '%s\n' "$output" | by_key); then output=$listed
elif [ -n "$slots" ]; then # each GPU is asked alone, up to its processes
  output=$(for each in $slots; do nvidia-smi -q -i "$each" 2>&1 | sed '/^ *Processes/,$d'; done | by_key)
else output='nvidia-smi lists more GPUs than there are, and the driver shows none in /proc'
fi
echo "code $code"
printf '%s\n' "$output"
# Last, and with a time limit: the training user may stop it.
cuda_init
