"""The files that gpu-node writes on nodes: where, what still uses the old ones, which lock out."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpu_node.facts.limits.confirmed import PAM_STACK, SSHD, is_confirmed
from gpu_node.facts.probe.globs import matches


@dataclass(frozen=True)
class Place:
    """Paths that a run may have written, as a pattern: `*` is any text within one folder or more.

    `live` is what goes on with the earlier content after a file is put back, and `then` ends that.
    """

    pattern: str
    live: str = ""
    then: str = ""
    in_home: bool = False


_SESSIONS = "sessions and services that are running keep their limits"
_SHELLS = "shells and jobs that are running keep their variables"
_UNITS = "systemd keeps the unit as it has loaded it"
# A reload of systemd takes the GPUs from running containers.
_REBOOT = "reboot when no job runs"
_PLACES = (
    Place("/etc/fstab", "/dev/shm keeps its size", "mount -o remount /dev/shm"),
    Place("/etc/hosts"),
    Place("/etc/ssh/ssh_known_hosts"),
    Place("/etc/ssh/ssh_config"),
    Place("/etc/ssh/ssh_config.d/*.conf"),
    Place("/etc/nccl.conf", "jobs that are running keep their settings"),
    Place("/etc/gpu-node/*", _SHELLS),
    Place("/etc/security/limits.d/*.conf", _SESSIONS),
    Place(PAM_STACK, _SESSIONS),
    Place(SSHD),
    Place("/etc/ssh/sshd_config.d/*.conf"),
    Place(
        "/etc/systemd/logind.conf.d/*.conf",
        "systemd-logind keeps RemoveIPC as it has read it",
        "systemctl restart systemd-logind",
    ),
    Place("/etc/systemd/system/*.service.d/*.conf", _UNITS, _REBOOT),
    Place(
        "/etc/systemd/system/gpu-node-persistence.service",
        "it stays enabled, and persistence mode stays on",
        "systemctl --no-reload disable gpu-node-persistence.service; nvidia-smi -pm 0",
    ),
    Place(
        "*/daemon.json",
        "docker keeps the defaults that it has read",
        "systemctl reload docker",
    ),
    Place("/etc/*.json", "docker keeps the defaults that it has read", "systemctl reload docker"),
    Place(
        "/etc/modprobe.d/gpu-node-nouveau.conf",
        "the initramfs has the earlier content",
        "update-initramfs -u (or dracut --force), then reboot",
    ),
    Place(
        "/etc/dracut.conf.d/gpu-node-nouveau.conf",
        "the initramfs has the earlier content",
        "dracut --force, then reboot",
    ),
    Place(
        "/etc/default/grub.d/gpu-node-kernel.cfg",
        "the next boot has the earlier default",
        "update-grub",
    ),
    Place("/etc/sysconfig/kernel"),
    Place(
        "/var/lib/gpu-node/kernel-hold",
        "the default kernel stays",
        "grubby --set-default=/boot/vmlinuz-VERSION",
    ),
    Place("/etc/apt/sources.list.d/gpu-node-cuda.sources"),
    Place("/etc/apt/keyrings/gpu-node-cuda.asc"),
    Place("/etc/yum.repos.d/gpu-node-cuda.repo"),
    Place(
        "/etc/pki/rpm-gpg/RPM-GPG-KEY-gpu-node-cuda",
        "rpm keeps the key",
        "rpm -q gpg-pubkey, then rpm -e gpg-pubkey-VERSION",
    ),
    Place("/etc/yum/pluginconf.d/versionlock.list"),
    Place("/etc/dnf/plugins/versionlock.list"),
    Place("/etc/dnf/versionlock.toml"),
    Place("*/.bashrc", _SHELLS, in_home=True),
    Place("*/.ssh/authorized_keys", in_home=True),
)


def place_of(path: str, user: str) -> Place | None:
    """Return the place of a file that a run of `user` wrote; None where no run writes it.

    Files of the system are root's; those of a home may be any user's.
    """
    if not _is_plain(path):
        return None
    places = (each for each in _PLACES if each.in_home or user == "root")
    return next((each for each in places if matches(path, each.pattern)), None)


def _is_plain(path: str) -> bool:
    """Whether a path is absolute, in one spelling, and below no file system of the kernel."""
    is_simple = path.startswith("/") and not re.search(r"//|/\.{0,2}(/|$)", path)
    return is_simple and path.isprintable() and not re.match(r"/(proc|sys|dev|run)/", path)


def locks_out(path: str) -> bool:
    """Whether a wrong content of a file can end all logins: a new session must confirm it."""
    return is_confirmed(path)


def is_of_sshd(path: str) -> bool:
    """Whether sshd reads a file only when it is reloaded."""
    return path.startswith(SSHD)
