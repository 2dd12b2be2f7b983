"""The files that can end all logins: a change of one stays only if a new session confirms it."""

CONF_D = "/etc/security/limits.d"
# Our file; beside it is a mark for each change of it that is not confirmed yet.
OWN_FILE = f"{CONF_D}/99-gpu-node.conf"
# The same lines once more, after those of another file that would decide.
LAST_FILE = f"{CONF_D}/zzzz-gpu-node.conf"
OWN_FILES = (OWN_FILE, LAST_FILE)
# The PAM stack of sshd, to which a deploy adds pam_limits.
PAM_STACK = "/etc/pam.d/sshd"
SSHD = "/etc/ssh/sshd_config"
# Files are read in the order of their names, and the first value of a setting is the one.
SSHD_FIRST = "/etc/ssh/sshd_config.d/00-gpu-node.conf"
# What the inventory sets of the kernel and of systemd: services are in no file that systemd reads.
SYSCTL = "/etc/sysctl.d/zz-gpu-node.conf"
MODULES = "/etc/modules-load.d/gpu-node.conf"
SERVICES = "/var/lib/gpu-node/services"
# Those of the system.
FILES = frozenset({*OWN_FILES, PAM_STACK, SSHD, SSHD_FIRST, SYSCTL, MODULES, SERVICES})
_KEYS = "/.ssh/authorized_keys"


def is_confirmed(path: str) -> bool:
    """Whether a file is one of these: one of the system, or the authorized_keys of an account.

    What replaces a file refuses to have another one confirmed: the next run would not know it.
    """
    return path in FILES or is_keys(path)


def is_keys(path: str) -> bool:
    """Whether a file is the authorized_keys of an account."""
    return path.startswith("/") and path.endswith(_KEYS) and "/../" not in path
