# Lists our units that systemd has not loaded since they were written: a reload of systemd takes the
# GPUs from running containers.
[ -d /run/systemd/system ] || exit 0
for file in /etc/systemd/system/nvidia-persistenced.service.d/gpu-node.conf \
  /etc/systemd/system/gpu-node-persistence.service; do
  [ -f "$file" ] || continue
  unit=${file#/etc/systemd/system/}
  state=$(systemctl show -p NeedDaemonReload "${unit%%.service*}.service") || exit 1
  [ "$state" != NeedDaemonReload=yes ] || echo "$file"
done
