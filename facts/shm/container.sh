# The first marker found names the container manager; the environment of pid 1 needs root.
kind=none
[ ! -e /run/.containerenv ] || kind=podman
[ ! -e /.dockerenv ] || kind=docker
if [ "$kind" = none ] && [ -s /run/systemd/container ]; then
  read -r kind </run/systemd/container
elif [ "$kind" = none ]; then
  value=$({ tr '\0' '\n' </proc/1/environ | sed -n 's/^container=//p'; } 2>/dev/null)
  kind=${value:-none}
fi
echo "$kind"
sed -n 's/^CapBnd:[[:space:]]*//p' /proc/self/status
