# The container managers of root: the lines of docker_daemon.sh, and `unit PATH LINE TEXT` where its unit
# sets a flag that we compare. `podman` and `size PATH LINE VALUE`: a podman that root has used, and
# the lines of containers.conf that set its shm_size. Needs $gn_docker.
eval "$gn_docker"
# of_root FILE: sets $pid to the dockerd of root that a file names.
of_root() {
  pid=
  { read -r pid <"${root-}$1"; } 2>/dev/null
  runs "$pid" 0 || { pid=; return 1; }
}
if of_root /run/docker.pid || command -v "${root-}/usr/bin/dockerd" >/dev/null 2>&1; then
  daemon root /etc/docker/daemon.json
  for file in nvidia-container-runtime-hook nvidia-container-toolkit nvidia-ctk; do
    [ ! -x "${root-}/usr/bin/$file" ] || { echo toolkit; break; }
  done
  for file in /etc/systemd/system/docker.service /etc/systemd/system/docker.service.d/*.conf \
    /run/systemd/system/docker.service.d/*.conf /usr/lib/systemd/system/docker.service \
    /lib/systemd/system/docker.service /etc/default/docker /etc/sysconfig/docker; do
    [ ! -f "${root-}$file" ] || awk -v f="$file" -v named="$named" '
      /^[ \t]*[#;]/ { next }
      $0 ~ named {
        text = ""
        for (i = 1; i <= NF; i++) if ($i ~ named) text = text " " $i ($i ~ /=/ ? "" : " " $(i + 1))
        print "unit\t" f "\t" NR "\t" substr(text, 2, 300)
      }
    ' "${root-}$file"
  done
fi
! of_root /run/snap.docker/docker.pid || daemon snap /var/snap/docker/current/config/daemon.json
storage=${root-}/var/lib/containers/storage
if [ -s "$storage/overlay-containers/containers.json" ] || [ -s "$storage/db.sql" ]; then
  echo podman
  for file in /usr/share/containers/containers.conf /etc/containers/containers.conf \
    "${root-}"/etc/containers/containers.conf.d/*.conf; do
    file=${file#"${root-}"}
    [ ! -f "${root-}$file" ] || awk -v f="$file" '
      /^[ \t]*\[/ { inside = /^[ \t]*\[containers\]/ }
      inside && /^[ \t]*shm_size[ \t]*=/ {
        value = $0
        sub(/^[^=]*=[ \t]*/, "", value); gsub(/["\047\t]/, "", value); sub(/[ \t]*(#.*)?$/, "", value)
        print "size\t" f "\t" NR "\t" substr(value, 1, 80)
      }' "${root-}$file"
  done
fi
