"""Which commands an operation yields: one test per case file, operations/MODULE.OP/CASE.yml.

A case: `facts` are the node's state, `kwargs` the operation's arguments; `commands` are expected,
or a `noop` message and no command. A script stands as {script: NAME, variables}; of a replaced
file `content` is what it will hold, and `before` is "as found" where the fact's text is meant.
"""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyinfra.api import FunctionCommand, StringCommand
from pyinfra.context import ctx_host, ctx_state
from pyinfra_testing.util import FakeState, create_host

from gpu_node.deploy.engine import scripts
from gpu_node.deploy.engine.scripts import FILES
from gpu_node.deploy.env.operations import BASH_CHECK
from gpu_node.deploy.files import downloads as controller
from gpu_node.deploy.files import replace as replacement
from gpu_node.deploy.files.upload import Upload
from gpu_node.deploy.toolchain import operations as toolchain
from gpu_node.deploy.workspace.rsync import Removal
from gpu_node.facts.areas import AREAS
from gpu_node.facts.nccl.state import ASKED, SUPPLY
from gpu_node.facts.probe.owner import ENVIRONMENT_OWNER, OWNER
from gpu_node.facts.probe.process import PROCESS
from gpu_node.facts.probe.redaction import AWK
from gpu_node.facts.probe.training_user import AS_USER, HOME
from tests import case_files

CASES = sorted((Path(__file__).parent / "operations").glob("*/*.yml"))
OPERATIONS = {
    *(
        "limits.own_file",
        "limits.settle",
        "limits.pam_limits",
        "limits.drop_in",
        "shm.fstab",
        "shm.size",
        "shm.permissions",
    ),
    *("shm.segments", "shm.trainers", "workspace.directory", "workspace.files"),
    *("workspace.rsync", "driver.install", "nccl.environment"),
    *("driver.packages", "driver.module", "driver.loaded", "driver.no_nouveau"),
    *("driver.persistence", "driver.reboot", "driver.hold_kernel"),
    *("network.nccl_conf", "env.blocks"),
    *("nccl.packages", "nccl.wheels", "toolchain.cmake", "toolchain.packages"),
    "toolchain.pdsh",
    *("ssh.permissions", "ssh.key", "ssh.authorized_keys", "ssh.lines", "ssh.settle"),
    *("ssh.settings", "shm.keep_segments", "shm.docker", "workspace.below"),
}
CACHE = Path("/cache")
_RUN = {"origin": scripts.origin(), "patience_for_runs": str(scripts.RUN_SECONDS)}


def sha(text: str) -> str:
    """Return the sum that replace.sh compares, of a text as the fact has it."""
    return hashlib.sha256(text.encode("latin-1")).hexdigest()


def shown(command: object, found: str) -> Any:
    """A command as a case writes it."""
    if isinstance(command, FunctionCommand):
        args = [argument_shown(each, found) for each in command.args]
        return {"function": getattr(command.function, "__name__", ""), "args": args}
    assert isinstance(command, StringCommand)
    if isinstance(command, Upload):
        return {**shown(StringCommand(*command.bits), found), "sends": str(command.file)}
    text = without_first(command.get_raw_value())
    for path in FILES.values():
        head, body, rest = text.partition(path.read_text())
        if body and not rest:
            return script_shown(path.stem, head, command, found)
    return shlex.split(text)


def without_first(text: str) -> str:
    """A script without what stands before its body."""
    for first in {each for name in FILES for each in scripts.needed(name)}:
        text = text.replace("\n" + FILES[first].read_text() + "\n", "")
    return text


def argument_shown(argument: object, found: str) -> Any:
    """An argument of a function as a case writes it."""
    if isinstance(argument, Removal):
        return asdict(argument)
    return shown(argument, found) if isinstance(argument, StringCommand) else argument


def script_shown(name: str, head: str, command: StringCommand, found: str) -> dict[str, str]:
    """A script's name and variables; head is what sh reads before it, so it is read as sh does."""
    variables = dict(word.split("=", 1) for word in shlex.split(head))
    if name == "by_owner":
        runs = variables["run"]
        name = next(each for each in scripts._BY_OWNER if runs.endswith(FILES[each].read_text()))
    first = scripts.needed(name)
    if "in_use" in first:
        assert variables.pop("holders").splitlines() == list(scripts.harmless_holders(name))
        assert variables.pop("gn_hide") == AWK
    assert variables.pop("gn_process", PROCESS) == PROCESS
    alone = variables.pop("lock", "") == scripts.LOCK
    assert alone == (
        name
        not in (
            *("settle", "remount", "persistence", "as_user", "ssh_modes", "ssh_folder"),
            *("directory", "directory_below", "workspace", "workspace_backups", "docker_reload"),
        )
    )
    if alone:
        assert variables.pop("origin") == scripts.origin()
        assert variables.pop("patience_for_runs") == str(scripts.RUN_SECONDS)
    if "package_locks" in first:
        assert (variables.pop("holding"), variables.pop("patience")) == (scripts.HELD, "300")
    if "holds" in first:
        assert (variables.pop("note"), variables.pop("run")) == (scripts.NOTE, "RUN")
    if name == "undo_timer":
        return timed(variables, command, found)
    if name == "as_user" or "copier" in first:
        assert variables.pop("as_user") == AS_USER
    if name == "as_user":
        variables["run"] = run_shown(variables["run"])
    if name == "replace_as":
        assert variables.pop("as_user") == AS_USER
        replaced = FILES["replace"].read_text()
        head, body, rest = without_first(variables.pop("run")).partition(replaced)
        assert (body, rest) == (replaced, "")
        inner = dict(word.split("=", 1) for word in shlex.split(head))
        assert {key: inner[key] for key in ("file", "before", "backups")}.items() <= (
            variables.items()
        )
        variables.update(inner)
    if "clear_away" in first:
        assert [variables.pop(each) for each in ("sent", "sent_sum", "pushed")] == ["", "", ""]
    if "proxy" in first:
        assert [variables.pop(each) for each in ("proxy", "direct")] == ["", ""]
    if name == "cmake":
        assert variables.pop("owner") == OWNER
    if name in scripts._BY_OWNER:
        variables = by_owner(name, variables)
    if "backups" in variables:
        assert variables.pop("backups") == replacement.backups()
    if name in ("replace", "replace_as"):
        text = unescaped(command)
        assert variables.pop("after") == sha(text)
        if variables["confirm"] == "no":
            variables["confirm"] = ""
        assert variables.pop("keep") == ("yes" if name == "replace" else "no")
        assert variables.pop("again") == "yes"
        before = "as found" if variables["before"] == sha(found) else variables["before"]
        checked = "findmnt" if "findmnt --verify" in variables["check"] else variables["check"]
        checked = "dockerd" if "dockerd --validate" in checked else checked
        checked = "bash -n" if checked == BASH_CHECK else checked
        variables.update(before=before, content=text, check=checked)
    return {"script": name, **variables}


def by_owner(name: str, outer: dict[str, str]) -> dict[str, str]:
    """The variables of the script that runs as an environment's owner."""
    assert outer.pop("owner") == f"{OWNER}{ENVIRONMENT_OWNER}"
    tidy = "".join(FILES[each].read_text() for each in ("clear_away", "leftovers"))
    assert outer.pop("tidy") == f"sent='' pushed=''\n{tidy}"
    head = without_first(outer.pop("run").removesuffix(FILES[name].read_text()))
    variables = dict(word.split("=", 1) for word in shlex.split(head))
    assert (variables.pop("asked"), variables.pop("supply")) == (ASKED, SUPPLY)
    assert outer.items() <= variables.items()
    if (variables["hashes"], variables["insecure"]) == ("", "no"):
        del variables["hashes"], variables["insecure"]
    return variables


def timed(outer: dict[str, str], command: StringCommand, found: str) -> dict[str, str]:
    """The replacement that a timer undoes unless it is confirmed, with its seconds."""
    assert outer["record"].startswith(f"{replacement.PENDING}/")
    undo, put_back = (FILES[each].read_text() for each in ("undo", "put_back"))
    record = dict(word.split("=", 1) for word in shlex.split(outer["undo"].split("# Run sh as")[0]))
    assert outer["undo"].endswith(put_back) and record["undo"].endswith(undo)
    assert [record[each] for each in ("record", "user")] == [outer["record"], outer["user"]]
    name = "replace_as" if outer["user"] else "replace"
    lock = shlex.join(f"{key}={value}" for key, value in (("lock", scripts.LOCK), *_RUN.items()))
    inner = without_first(outer["run"]).removesuffix(FILES[name].read_text())
    shown = script_shown(name, f"{lock} {inner}", command, found)
    assert shown["confirm"] == "yes"
    return {**shown, "confirm": outer["confirm"]}


def run_shown(run: str) -> str:
    """The name of the script that is run as another user, after its variables."""
    (name,) = (path.stem for path in FILES.values() if run.endswith(path.read_text()))
    head = without_first(run).removeprefix(HOME).removesuffix(FILES[name].read_text())
    return " ".join([*shlex.split(head), name])


def unescaped(command: StringCommand) -> str:
    """The text that printf(1) makes of a command's stdin: octal escapes, and nothing else."""
    (line,) = command.connector_arguments["_stdin"]
    assert "%" not in line and line.isascii() and line.isprintable()
    return line.encode().decode("unicode_escape")


def _in_its_module(fact: str) -> str:
    """The name by which pyinfra's tests know a fact: a case has the one that users write."""
    area, _, name = fact.partition(".")
    is_of_area = area in AREAS and hasattr(import_module(f"gpu_node.facts.{area}.state"), name)
    return f"state.{name}" if is_of_area else fact


def outcome(name: str, case: dict[str, Any]) -> tuple[list[Any], str | None]:
    """Run an operation on a host of that case's facts; its commands and what it says of none."""
    module, operation = name.split(".")
    function = getattr(import_module(f"gpu_node.deploy.{module}.operations"), operation)
    state = FakeState()
    host = create_host(
        state, facts={_in_its_module(key): each for key, each in case["facts"].items()}
    )
    with ctx_state.use(state), ctx_host.use(host):
        commands = list(function._inner(**case["kwargs"]))
    files = case["facts"].get("file_bytes.FileBytes", {})
    found = next(iter(files.values()))["text"] if files else ""
    return [shown(command, found) for command in commands], host.noop_description


def test_each_operation_has_a_case_of_each_kind() -> None:
    """No operation goes without a case that changes something and one with nothing to do."""
    kinds = {(path.parent.name, "noop" in case_files.load(path.read_text())) for path in CASES}
    assert kinds == {(name, kind) for name in OPERATIONS for kind in (True, False)}


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_case(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From these facts follow these commands and no others, or none, with the reason."""
    for module in (controller, toolchain):
        monkeypatch.setattr(module, "cache", lambda: CACHE)
    monkeypatch.setattr(replacement, "run", lambda: "RUN")
    case: dict[str, Any] = case_files.load(path.read_text())
    commands, printed = outcome(path.parent.name, case)
    assert commands == case.get("commands", [])
    assert printed == case.get("noop")
