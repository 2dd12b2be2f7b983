"""A node with containers: processes in mount namespaces below one whose /proc shows only them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field

from pyinfra.api import StringCommand

from gpu_node.lab.machine import as_root
from tests.apart import APART, OWN_TMP
from tests.node_scripts import Ended, environment
from tests.shells import SHELLS

SECONDS = 30
ID = "0123456789ab" + 52 * "c"
# The node has GPUs, a systemd, and processes that `begin NAME MOUNTS` starts in a mount namespace
# and that `cgroup NAME LINE...` puts into a cgroup, as far as /proc shows it.
_NODE = """
set -e
mount -t tmpfs run /run
here=/run/here
mkdir -p "$here/dev" /run/systemd/system
for each in null zero tty urandom; do
  touch "$here/dev/$each"
  mount --bind "/dev/$each" "$here/dev/$each"
done
touch "$here/dev/nvidia0" "$here/dev/nvidiactl"
mount --rbind "$here/dev" /dev
begin() {
  unshare --mount sh -ec "$2
    touch '$here/$1.ready'
    exec sleep 60" &
  echo $! >"$here/$1.pid"
  while [ ! -e "$here/$1.ready" ]; do kill -0 $!; sleep 0.02; done
}
cgroup() {
  name=$1
  shift
  printf '%s\\n' "$@" >"$here/$name.cgroup"
  pid=1
  [ "$name" = node ] || pid=$(cat "$here/$name.pid")
  mount --bind "$here/$name.cgroup" "/proc/$pid/cgroup"
}
"""
# A /dev of its own, as each runtime makes one, with what it was given of the node's.
OWN_DEV = "mount -t tmpfs dev /dev; touch /dev/null /dev/nvidiactl"
GPU = f"{OWN_DEV}; touch /dev/nvidia0"


@dataclass
class Node:
    """What is started on the node before a script runs, as bash."""

    lines: list[str] = field(default_factory=list)

    def begin(self, name: str, mounts: str, *cgroup: str) -> None:
        """Start a process after these mounts, in a cgroup of these lines."""
        self.lines.append(f"begin {name} {shlex.quote(mounts)}")
        if cgroup:
            self.cgroup(name, *cgroup)

    def cgroup(self, name: str, *lines: str) -> None:
        """Put a process, or the `node` itself, into a cgroup."""
        self.lines.append(f"cgroup {name} {shlex.join(lines)}")

    def run(self, command: StringCommand | str, shell: str, user: str = "") -> Ended:
        """Run a script on the node, as root or with another user's id."""
        text = command if isinstance(command, str) else command.get_raw_value()
        as_user = f"setpriv --reuid={user} --regid={user} --clear-groups " if user else ""
        path = shlex.quote(environment(shell)["PATH"])
        run = f"{as_user}env PATH={path} {shlex.join(SHELLS[shell])} -c {shlex.quote(text)}"
        script = "\n".join([_NODE, OWN_TMP, *self.lines, f"code=0; {run} || code=$?", "exit $code"])
        done = as_root([*APART, "bash", "-c", script], check=False, timeout=SECONDS)
        return Ended(done.returncode, done.stdout, done.stderr)
