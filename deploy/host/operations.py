"""Operations on the kernel's settings and modules, and on services.

pyinfra's server.sysctl appends a second line when a value changes, its server.modprobe loads a
module until the next boot, and its systemd.service reloads systemd.
"""

from collections.abc import Mapping
from functools import partial

from pyinfra.api import FunctionCommand, operation

from gpu_node.deploy.engine.scripts import as_run, script
from gpu_node.deploy.files.confirm import CONFIRM_SECONDS, Trial, keep_or_restore
from gpu_node.deploy.files.operations import Commands, edited
from gpu_node.deploy.files.replace import sum_of
from gpu_node.facts.limits.confirmed import MODULES, SERVICES, SYSCTL
from gpu_node.facts.probe.lines import lines_of

_KINDS = {SYSCTL: "sysctl", MODULES: "module", SERVICES: "service"}
# Begins the names of the records of what was before.
BEFORE = "/var/lib/gpu-node/before-"
HEAD = "# Written by gpu-node; what is set here comes from the inventory."


def _variables(path: str) -> dict[str, str]:
    kind = _KINDS[path]
    return {"kind": kind, "file": path, "record": f"{BEFORE}{kind}"}


def applied(path: str) -> str:
    """Return sh that has the node as a file of ours says; empty for another file."""
    return as_run("settings", **_variables(path)) if path in _KINDS else ""


@operation()
def settings(
    path: str, entries: Mapping[str, str], account: str = "", now: bool = False
) -> Commands:
    """
    Write entries into a file of ours, and have the node as it says. It stays only if the node takes
    them, and a new session can still be opened. Entries of other names stay.

    + path: the file, eg ``/etc/sysctl.d/zz-gpu-node.conf``
    + entries: eg ``{"vm.max_map_count": "262144"}``; the value of a module is empty
    + account: also tried with a new session; empty for only the SSH user
    + now: whether the node is not as a file says that has the entries already
    """
    edit = partial(with_entries, entries=entries)
    new = yield from edited(path, edit, confirm_seconds=CONFIRM_SECONDS, then=applied(path))
    if new is not None:
        trial = Trial(path, sum_of(new), accounts=[account], is_reread=True)
        yield FunctionCommand(keep_or_restore, [trial], {})
    elif now:
        yield script("settings", **_variables(path))


def with_entries(text: str, entries: Mapping[str, str]) -> str:
    """Return the text of a file of ours with these entries, behind those of other names."""
    others = [line for line in lines_of(text) if line.split(" ")[0] not in entries]
    ours = [f"{name} = {value}" if value else name for name, value in entries.items()]
    return "".join(f"{line}\n" for line in dict.fromkeys((HEAD, *others, *ours)))
