"""Shared memory rule about logout: logind does not delete the segments of the training user."""

from collections.abc import Iterator
from shlex import quote

from gpu_node.drift.engine.rule import At, Fault, check
from gpu_node.drift.engine.subject import Thing
from gpu_node.facts.shm.ipc import OWN_FILE, RemoveIpc, Setting

_KEY = "shm: {remove_ipc: false}"


@check("shm.remove-ipc")
def remove_ipc(at: At) -> Iterator[Fault]:
    ipc = at.node.shm.ipc
    if ipc is None or not ipc.runs:
        return
    is_named = at.wanted.shm is not None and at.wanted.shm.remove_ipc is False
    if ipc.removes and (is_named or ipc.concerns_user):
        yield _removes(ipc, is_named)
    elif not ipc.removes and ipc.decides and ipc.decides.is_later and ipc.concerns_user:
        yield _waits(ipc, ipc.decides)


def _removes(ipc: RemoveIpc, is_named: bool) -> Fault:
    decides = ipc.decides
    is_ours_last = decides is None or _is_before_ours(decides)
    where = f"line {decides.line} of {decides.path}" if decides else "systemd's default"
    now = f"loginctl enable-linger {quote(ipc.user)} helps at once"
    if is_named and is_ours_last:
        fix = f"write RemoveIPC=no under [Login] into {OWN_FILE}; {now}"
    elif is_ours_last:
        fix = f"{now}; for good set {_KEY} in the inventory"
    else:
        fix = f"set RemoveIPC=no in {where}, which is read after {OWN_FILE}; {now}"
    return Fault(
        subject=Thing("RemoveIPC"),
        found=f"yes, by {where}",
        wanted="no",
        cause="" if ipc.concerns_user else f"logind spares {ipc.user}, and no other ordinary user",
        names={"USER": ipc.user},
        fix=fix,
        fixable=is_named and is_ours_last,
    )


def _is_before_ours(setting: Setting) -> bool:
    """Whether our file overrides a line: drop-ins are read by their names, after logind.conf."""
    folder, _, name = setting.path.rpartition("/")
    is_drop_in = folder.endswith("/logind.conf.d")
    return not is_drop_in or name <= OWN_FILE.rpartition("/")[2]


def _waits(ipc: RemoveIpc, decides: Setting) -> Fault:
    return Fault(
        subject=Thing("RemoveIPC"),
        found=f"no, by {decides.path}, which is newer than the running logind",
        wanted="no, read by logind",
        cause="logind reads its files when it starts; a restart could end sessions, so it waits "
        "for the next boot",
        fix=f"until the next boot: loginctl enable-linger {quote(ipc.user)}",
        fixable=False,
        severity="info",
    )
