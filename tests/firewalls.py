"""Firewalls for nodes of network namespaces: those of the distribution, unpacked and not installed.

An installed firewalld would close the ports of this machine.
"""

from __future__ import annotations

import re
import shutil
from functools import cache
from pathlib import Path

from gpu_node.lab.machine import run
from tests.verify.namespaces import Nodes

FOLDER = Path(__file__).parents[1] / ".lab" / "firewalls"
PACKAGES = ("firewalld", "ufw")
# Each node has its own folders where these and gpu-node write.
OWN = """mount -t tmpfs none /run
for each in /usr /etc /var/lib /var/log /var/backups; do
  lower=$each
  [ ! -d "$unpacked$each" ] || lower=$unpacked$each:$each
  mkdir -p /tmp/own$each/up /tmp/own$each/work
  own=upperdir=/tmp/own$each/up,workdir=/tmp/own$each/work
  mount -t overlay none -o "lowerdir=$lower,$own" $each
done
mkdir -p /run/dbus
"""
BACK = "umount -l /usr /etc /var/lib /var/log /var/backups /run"
# The package chooses the rules of polkit, if that is there, when it is installed.
FIREWALLD = """actions=/usr/share/polkit-1/actions/org.fedoraproject.FirewallD1
[ ! -e $actions.server.policy.choice ] || cp $actions.server.policy.choice $actions.policy
dbus-daemon --system --fork
firewalld --nofork --nopid >/dev/null 2>&1 &
echo $! >/run/own.pid
for each in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  ! firewall-cmd -q --state 2>/dev/null || exit 0
  sleep 0.2
done
exit 1
"""
# What ufw's package writes when it is installed.
UFW = """for each in before after user before6 after6 user6; do
  cp /usr/share/ufw/iptables/$each.rules /etc/ufw/
done
cp /usr/share/ufw/ufw.conf /usr/share/ufw/*.init /etc/ufw/
chmod 640 /etc/ufw/*
ufw --force enable >&2
"""


def given(nodes: Nodes, name: str) -> None:
    """Have a node find the firewalls, with folders of its own."""
    nodes.on(name, f"unpacked={_unpacked()}\n{OWN}")


@cache
def _unpacked() -> Path:
    """Return the folder of what this machine lacks; a LabError says what apt has not."""
    made = FOLDER / "made"
    if not made.exists():
        _unpack(FOLDER)
    return made


def _unpack(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    planned = _run(folder, "apt-get", "-s", "install", "--no-install-recommends", *PACKAGES)
    names = re.findall(r"^Inst (\S+)", planned, re.MULTILINE)
    if names:
        _run(folder, "apt-get", "download", "-qq", *names)
    (folder / "new").mkdir()
    for each in folder.glob("*.deb"):
        _run(folder, "dpkg-deb", "-x", each.name, "new")
        each.unlink()
    if (old := folder / "new" / "lib").is_dir():  # it is a link to /usr/lib
        shutil.copytree(old, folder / "new" / "usr" / "lib", symlinks=True, dirs_exist_ok=True)
    (folder / "new").rename(folder / "made")


def _run(folder: Path, *words: str) -> str:
    return run(["env", "-C", folder, *words]).stdout
