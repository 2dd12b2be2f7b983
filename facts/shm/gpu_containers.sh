# Running containers that have GPUs, with the size of their /dev/shm, seen from the host by their
# mount tables: `PID<tab>KiB<tab>cgroup<tab>process`; KiB is empty for no limit. Nothing of a
# container is entered: its file systems may hang.
found=
for folder in /run/docker /run/containerd /run/libpod /run/crio /run/snap.docker; do
  [ ! -e "${root-}$folder" ] || found=yes
done
[ -n "$found" ] || exit 0
# The first process of each mount namespace but ours; at most @most@.
ls -l "${root-}"/proc/[0-9]*/ns/mnt "${root-}/proc/self/ns/mnt" 2>/dev/null | awk -v most=@most@ '
  {
    at = $(NF - 2); sub(/\/ns\/mnt$/, "", at); sub(/.*\//, "", at)
    if (at == "self") { own = $NF; next }
    if (!($NF in first) || at + 0 < first[$NF]) first[$NF] = at + 0
  }
  END { for (each in first) if (each != own && count++ < most) print first[each] }' | sort -n |
while read -r pid; do
  # A process gives itself a name of any bytes; its newline is the last one.
  name=$({ tr -c '\40-\176' '?' <"${root-}/proc/$pid/comm"; } 2>/dev/null)
  printf 'pid %s\t%s\t%s\n' "$pid" \
    "$(awk -F: 'length($3) > length(best) { best = $3 } END { gsub(/[^ -~]/, "?", best); print best }' \
      "${root-}/proc/$pid/cgroup" 2>/dev/null)" "${name%\?}"
  cat "${root-}/proc/$pid/mountinfo" 2>/dev/null
done | awk '
  function shown() {
    if (pid != "" && has && at) print pid "\t" size "\t" cgroup "\t" name
  }
  /^pid / {
    shown()
    split(substr($0, 5), field, "\t"); pid = field[1]; cgroup = field[2]; name = field[3]
    has = at = 0; size = ""
    next
  }
  $5 ~ /^\/dev\/nvidia|\/libcuda\.so|\/nvidia-smi$/ { has = 1 }
  $5 == "/dev/shm" {
    at = 1; size = ""
    if (match($NF, /(^|,)size=[0-9]+k/)) {
      size = substr($NF, RSTART, RLENGTH); gsub(/[^0-9]/, "", size)
    }
  }
  END { shown() }'
