"""What a step that disturbs a node does to a container: one test a case of disturbs.yml.

A case: `step` is the script, which runs beside one container; `cgroup` are the lines of its cgroup.
Its process is of `user` (root), sees GPUs unless `gpus` is false, and has one open if it `holds`
it; with `monitors` its program is one of gpu_holders.tsv; `more` is a program beside it. `docker`
has the fields that `docker inspect` fills in; without them it fails; `stderr` is what it prints
first. With `hangs` it does not answer. `refused` is what the refusal names, `named` what is shown
although nothing is refused; a case without both prints nothing.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_node.deploy.engine.scripts import script
from tests import case_files
from tests.deploy.containing import GPU, ID, OWN_DEV, Node
from tests.node_scripts import Ended

FILE = Path(__file__).parent / "disturbs.yml"
CASES = case_files.parse("disturbs", FILE.read_text())
SLEEP = os.path.realpath(str(shutil.which("sleep")))
BIN = "/run/here/bin"
VARIABLES = {
    "reboot": {"version": "1", "mark": "/run/mark", "look": "yes", "trainer": "daemon"},
    "module": {"version": "1", "later": "no"},
    "idle": {"otherwise": "wait until they have ended"},
}


def commands(case: Mapping[str, Any]) -> Iterator[str]:
    """Return the lines of a docker that fills in a template, as the real one does."""
    yield f"mkdir -p {BIN}; printf '#!/bin/sh\\nexit 1\\n' >{BIN}/modprobe"
    yield f"cat >{BIN}/docker <<'end'\n#!/bin/sh"
    yield f'for id; do :; done; [ "$1 $id" = "inspect {ID[:12]}" ] || exit 2'
    if text := case.get("stderr"):
        yield f"echo {shlex.quote(text.replace('SHORT', ID[:12]))} >&2"
    if case.get("hangs"):
        yield "exec sleep 60"
    fields = case.get("docker", {}).items()
    filled = "".join(f" -e {shlex.quote(f's|{{{{{key}}}}}|{value}|g')}" for key, value in fields)
    yield (
        f'printf "%s\\n" "$*" | sed -n {filled} -e "s/.*--format //; s/ $id$//p"'
        if filled
        else "exit 1"
    )
    yield f"end\nchmod +x {BIN}/*"


def run(case: Mapping[str, Any], shell: str) -> Ended:
    """Run a case's step beside its container."""
    user, more = case.get("user", 0), case.get("more")
    become = f"setpriv --reuid={user} --regid={user} --clear-groups " if user else ""
    lines = [
        GPU if case.get("gpus", True) else OWN_DEV,
        f"{more} &" if more else ":",
        "exec 7</dev/nvidia0" if case.get("holds") else ":",
        f"touch /run/here/job.ready; exec setsid {become}sleep 60",
    ]
    node = Node(list(commands(case)))
    node.begin("job", "\n".join(lines), *(each.replace("ID", ID) for each in case["cgroup"]))
    if not case.get("systemd", True):
        node.lines.append("rmdir /run/systemd/system")
    node.lines.append("[ ! -d /sys/module ] || mount -t tmpfs none /sys/module")
    step = case["step"]
    allow = "yes" if case.get("allow") else "no"
    text = script(step, allow=allow, **VARIABLES[step]).get_raw_value()
    if case.get("monitors"):
        text = text.replace("/usr/bin/dcgm-exporter", SLEEP)
    # A docker that does not answer is not waited for so long here.
    text = text.replace("-s KILL 10 docker", "-s KILL 1 docker")
    return node.run(f"PATH={BIN}:$PATH\n{text}", shell)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_container(case: case_files.Case, shell: str) -> None:
    """It is named with what a person needs to know; only what would be lost is a refusal."""
    done = run(case.data, shell)
    refused, named = case.data.get("refused"), case.data.get("named")
    pid = done.err.partition("pid ")[2].partition(":")[0].partition(" ")[0]
    subject = str(refused or named).replace("SHORT", ID[:12]).replace("PID", pid)
    way = "wait until they have ended, end them, or give --data allow_disruption=true"
    assert done.out == ""
    if refused:
        assert done.err == f"gpu-node: in use by {subject}; nothing was changed: {way}\n"
    elif named:
        assert done.err == f"gpu-node: a reboot ends {subject}\n"
    else:
        assert done.err == ""
    assert done.code == (1 if refused else 0)
