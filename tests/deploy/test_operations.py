"""Which commands an operation yields: one test per case file, operations/MODULE.OP/CASE.yml.

A case: `facts` are what the node said, `kwargs` the operation's arguments; `commands` are expected,
or `noop` is said and there are none. A script stands as {script: NAME, variables}; of a replaced
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
from pyinfra.api import FileUploadCommand, FunctionCommand, StringCommand
from pyinfra.context import ctx_host, ctx_state
from pyinfra_testing.util import FakeState, create_host

from deploy import controller, replacement, scripts
from deploy.copying import Removal
from deploy.operations import toolchain
from deploy.operations.env import BASH_CHECK
from deploy.scripts import FOLDER
from facts.mesh import AS_USER, HOME
from facts.nccl import ASKED
from tests import case_files

CASES = sorted((Path(__file__).parent / "operations").glob("*/*.yml"))
OPERATIONS = {
    *("limits.own_file", "limits.settle", "shm.fstab", "shm.size", "shm.permissions"),
    *("shm.segments", "shm.trainers", "workspace.directory", "workspace.files"),
    *("workspace.rsync", "driver.install", "nccl.environment"),
    *("driver.packages", "driver.module", "driver.loaded", "driver.no_nouveau"),
    *("driver.persistence", "driver.reboot", "driver.hold_kernel"),
    *("network.nccl_conf", "env.blocks"),
    *("nccl.packages", "nccl.wheels", "toolchain.cmake", "toolchain.packages"),
    *("ssh.permissions", "ssh.key", "ssh.authorized_keys", "ssh.lines", "ssh.settle"),
    "ssh.settings",
}
CACHE = Path("/cache")


def sha(text: str) -> str:
    """The sum that replace.sh compares, of a text as the fact tells it."""
    return hashlib.sha256(text.encode("latin-1")).hexdigest()


def shown(command: object, found: str) -> Any:
    """A command as a case writes it."""
    if isinstance(command, FunctionCommand):
        args = [argument_shown(each, found) for each in command.args]
        return {"function": getattr(command.function, "__name__", ""), "args": args}
    if isinstance(command, FileUploadCommand):
        return {"upload": str(command.src), "to": str(command.dest)}
    assert isinstance(command, StringCommand)
    text = command.get_raw_value()
    for first in scripts._FIRST:
        text = text.replace("\n" + (FOLDER / f"{first}.sh").read_text() + "\n", "")
    for path in FOLDER.glob("*.sh"):
        head, body, rest = text.partition(path.read_text())
        if body and not rest:
            return script_shown(path.stem, head, command, found)
    return shlex.split(text)


def argument_shown(argument: object, found: str) -> Any:
    """An argument of a function as a case writes it."""
    if isinstance(argument, Removal):
        return asdict(argument)
    return shown(argument, found) if isinstance(argument, StringCommand) else argument


def script_shown(name: str, head: str, command: StringCommand, found: str) -> dict[str, str]:
    """A script's name and variables; head is what sh reads before it, so it is read as sh does."""
    variables = dict(word.split("=", 1) for word in shlex.split(head))
    if name in scripts._FIRST["in_use"]:
        assert variables.pop("holders").splitlines() == list(scripts.harmless_holders(name))
    alone = variables.pop("lock", "") == scripts.LOCK
    assert alone == (
        name
        not in (
            *("confirm", "remount", "restore", "persistence", "as_user", "ssh_modes"),
            *("directory", "workspace", "workspace_backups"),
        )
    )
    if alone:
        assert variables.pop("origin") == scripts.origin()
        assert variables.pop("patience_for_runs") == str(scripts.RUN_SECONDS)
    if name in scripts._PACKAGES:
        assert (variables.pop("holding"), variables.pop("patience")) == (scripts.HELD, "300")
    if name in scripts._HOLDING:
        assert (variables.pop("note"), variables.pop("run")) == (scripts.NOTE, "RUN")
    if name == "as_user":
        assert variables.pop("as_user") == AS_USER
        variables["run"] = run_shown(variables["run"])
    if name == "replace_as":
        assert variables.pop("as_user") == AS_USER
        replaced = (FOLDER / "replace.sh").read_text()
        head, body, rest = variables.pop("run").partition(replaced)
        assert (body, rest) == (replaced, "")
        inner = dict(word.split("=", 1) for word in shlex.split(head))
        assert {key: inner[key] for key in ("file", "before", "backups")}.items() <= (
            variables.items()
        )
        variables.update(inner)
    if name in ("wheels", "packages_pip"):
        assert variables.pop("asked") == ASKED
    if "backups" in variables:
        assert variables.pop("backups") == replacement.backups()
    if name in ("replace", "replace_as"):
        text = unescaped(command)
        assert variables.pop("after") == sha(text)
        undo = (FOLDER / "undo.sh").read_text() if variables["confirm"] else ""
        assert variables.pop("undo") == undo
        assert variables.pop("again") == "yes"
        before = "as found" if variables["before"] == sha(found) else variables["before"]
        checked = "findmnt" if "findmnt --verify" in variables["check"] else variables["check"]
        checked = "bash -n" if checked == BASH_CHECK else checked
        variables.update(before=before, content=text, check=checked)
    return {"script": name, **variables}


def run_shown(run: str) -> str:
    """The name of the script that is run as another user, after its variables."""
    (name,) = (path.stem for path in FOLDER.glob("*.sh") if run.endswith(path.read_text()))
    head = run.removeprefix(HOME).removesuffix((FOLDER / f"{name}.sh").read_text())
    return " ".join([*shlex.split(head), name])


def unescaped(command: StringCommand) -> str:
    """The text that printf(1) makes of a command's stdin: octal escapes, and nothing else."""
    (line,) = command.connector_arguments["_stdin"]
    assert "%" not in line and line.isascii() and line.isprintable()
    return line.encode().decode("unicode_escape")


def outcome(name: str, case: dict[str, Any]) -> tuple[list[Any], str | None]:
    """Run an operation on a host of that case's facts; its commands and what it says of none."""
    module, operation = name.split(".")
    function = getattr(import_module(f"deploy.operations.{module}"), operation)
    state = FakeState()
    host = create_host(state, facts=case["facts"])
    with ctx_state.use(state), ctx_host.use(host):
        commands = list(function._inner(**case["kwargs"]))
    files = case["facts"].get("files.FileBytes", {})
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
    commands, said = outcome(path.parent.name, case)
    assert commands == case.get("commands", [])
    assert said == case.get("noop")
