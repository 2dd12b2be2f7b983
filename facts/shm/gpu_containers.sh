# Running containers that have GPUs, with the size of their /dev/shm, seen from the host by their
# mount tables: `PID<tab>KiB<tab>cgroup<tab>process`; KiB is empty for no limit. Nothing of a
# container is entered: its file systems may hang. Needs $gn_process.
found=
for folder in /run/docker /run/containerd /run/libpod /run/crio /run/snap.docker; do
  [ ! -e "${root-}$folder" ] || found=yes
done
[ -n "$found" ] || exit 0
eval "$gn_process"
# The first process of each mount namespace but ours; at most @most@. Any user can make more, in a user
# namespace of their own: those come last, and `more N` is the number of those left out. `closed N` is
# the number of processes whose namespaces another user than root cannot see.
listed=$(for each in user mnt; do
    of_processes "ns/$each" ls -l "${root-}/proc/self/ns/$each" 2>/dev/null || exit 1
  done) || { echo 'the processes cannot be listed'; exit 1; }
printf '%s\n' "$listed" | awk '
  {
    if ($(NF - 1) != "->") { closed++; next }
    at = $(NF - 2); kind = at; sub(/.*\//, "", kind)
    sub(/\/ns\/[a-z]*$/, "", at); sub(/.*\//, "", at)
    if (kind == "user") { space[at] = $NF; next }
    if (at == "self") { own = $NF; user = $3; next }
    if (!($NF in first) || at + 0 < first[$NF]) first[$NF] = at + 0
  }
  END {
    if (closed && user != "root") print "closed", closed
    for (each in first) if (each != own) print (space[first[each]] != space["self"]), first[each]
  }' |
sort -n -k 1,1 -k 2,2 | awk -v most=@most@ '
  $1 == "closed" { print; next }
  ++count <= most { print $2 }
  END { if (count > most) print "more", count - most }' |
while read -r pid more; do
  [ -z "$more" ] || { echo "$pid $more"; continue; }
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
  /^(more|closed) [0-9]+$/ { print; next }
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
