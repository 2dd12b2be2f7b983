# Find the running containers that have GPUs. A reload of systemd takes the GPUs from them: systemd then
# applies its own list of devices to each container's scope again, and NVIDIA's runtime has added the GPUs
# without systemd. 'Failed to initialize NVML: Unknown Error' stays until the container is made anew; an
# idle container loses its GPUs as well.
# Variables: allow_reload (yes: reload all the same), gn_process (facts/probe/process.py). The functions use `fail` of the script behind them.
# Given: gn_process
# shellcheck shell=sh disable=SC2154,SC3013
eval "$gn_process"
# outside: "PID NAMESPACE" of each process that is not in the node's own mount namespace (that of pid 1, and
# of this shell), as those of a container of any runtime are; the namespace is - where it cannot be read.
outside() {
  links=$(of_processes ns/mnt ls -l 2>/dev/null) || return
  printf '%s\n' "$links" | awk -v self="$$" '
    match($0, /\/proc\/[0-9]+\/ns/) {
      space[substr($0, RSTART + 6, RLENGTH - 9)] = $NF ~ /^mnt:/ ? $NF : "-"
    }
    END {
      ours[space[1]] = ours[space[self]] = 1
      for (pid in space)
        if (pid != 1 && pid != self && (space[pid] == "-" || !(space[pid] in ours))) print pid, space[pid]
    }' | sort -k 2,2 -k 1,1n
}
# container_id PROCESS: 12 letters of the id in the name of its cgroup (docker-ID.scope, /docker/ID,
# libpod-ID.scope, cri-containerd-ID.scope, crio-ID.scope); nothing where the name has no id
container_id() {
  sed -n '/[^0-9a-f][0-9a-f]\{64\}/{s/.*[^0-9a-f]\([0-9a-f]\{12\}\)[0-9a-f]\{52\}.*/\1/p;q;}' \
    "$1/cgroup" 2>/dev/null
}
# name_of PROCESS: a process may give itself a name of any bytes.
name_of() { printf '%s' "$(cat "$1/comm" 2>/dev/null)" | tr -c '\40-\176' '?'; }
# sees_gpus PROCESS: whether a GPU is in its /dev. Each process that has one open, or will, sees it there.
sees_gpus() {
  for device in "$1"/root/dev/nvidia[0-9]*; do
    [ ! -e "$device" ] || return 0
  done
  return 1
}
# gpu_containers: a line `NAMESPACE ID TEXT` for each container that has GPUs, or - where one is unknown; one
# process of a namespace is looked at. A privileged container counts, too: it most likely keeps its GPUs, as its list has all devices, but
# on cgroup v2 no file shows that list.
gpu_containers() (
  set +f
  LC_ALL=C; export LC_ALL
  [ -L /proc/1/ns/mnt ] || { echo '- - unknown ones: /proc cannot be read'; return 0; }
  node=$(container_id /proc/1)
  decided=
  outside=$(outside) || { echo '- - unknown ones: the processes cannot be listed'; return 0; }
  printf '%s\n' "$outside" | while read -r pid space; do
    [ -n "$pid" ] || continue
    process=/proc/$pid
    [ "$space" = - ] || [ "$space" != "$decided" ] || continue
    if [ "$space" = - ] || [ ! -d "$process/root/" ]; then
      # A thread of the kernel, and a process that has ended, have no memory.
      ! grep -qs '^VmSize' "$process/status" ||
        printf '%s\n' "- - pid $pid ($(name_of "$process")), which cannot be read"
      continue
    fi
    decided=$space
    sees_gpus "$process" || continue
    id=$(container_id "$process")
    # A service with a mount namespace (PrivateTmp=yes) has the node's /dev. Where a container was given
    # that one, its id shows what it is; on a node that is a container, services have the node's id.
    # The test -ef is in dash, bash and busybox.
    if [ "$process/root/dev" -ef /dev ] && [ "${id:-$node}" = "$node" ]; then continue; fi
    printf '%s\n' "$space ${id:--} container ${id:-without an id} (pid $pid: $(name_of "$process"))"
  done
)
# takes_gpus: whether a reload would take GPUs from containers, which are left in `containers`
takes_gpus() {
  containers=
  # Without systemd nothing is reloaded.
  [ "$allow_reload" = yes ] || [ ! -d /run/systemd/system ] ||
    containers=$(gpu_containers | sed 's/^[^ ]* [^ ]* /, /' | tr -d '\n')
  containers=${containers#, }
  [ -n "$containers" ]
}
# refuse_reload PACKAGES: fail where the scripts of packages would take GPUs from containers
refuse_reload() {
  ! takes_gpus ||
    fail "the scripts of $1 reload systemd, which takes the GPUs from running containers: $containers; no package was changed: stop these containers, or run again with --data allow_disruption=true"
}
