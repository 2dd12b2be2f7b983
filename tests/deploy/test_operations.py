"""Which commands an operation yields: one test a case of operations/MODULE.OP.yml.

A case: `facts` are the node's state, `kwargs` the operation's arguments; `commands` are expected,
or a `noop` message and no command; `shows` is what a dry run shows of files. A case without `facts`
is of a node that answers as facts.yml says, changed by `found`. A script stands as {script: NAME,
variables}; of a replaced file `content` is what it will hold, and `before` is "as found" where the
fact's text is meant.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyinfra.api import FunctionCommand, StringCommand
from pyinfra.context import ctx_host, ctx_state
from pyinfra_testing.util import FakeState, create_host

from gpu_node import deploy
from gpu_node.deploy.engine import scripts, transactions
from gpu_node.deploy.engine.run import node_of
from gpu_node.deploy.engine.scripts import FILES
from gpu_node.deploy.env.operations import BASH_CHECK
from gpu_node.deploy.files import downloads as controller
from gpu_node.deploy.files import replace as replacement
from gpu_node.deploy.files.confirm import Trial
from gpu_node.deploy.files.downloads import Upload
from gpu_node.deploy.toolchain import operations as toolchain
from gpu_node.deploy.workspace.rsync import Removal
from gpu_node.facts.areas import AREAS
from gpu_node.facts.nccl.state import ASKED, SUPPLY
from gpu_node.facts.probe.owner import ENVIRONMENT_OWNER, OWNER
from gpu_node.facts.probe.process import PROCESS
from gpu_node.facts.probe.redaction import AWK
from gpu_node.facts.probe.training_user import AS_USER, HOME
from tests import case_files
from tests.case_files import Case

CASES = case_files.cases(Path(__file__).parent / "operations")
ANSWERS = case_files.load((Path(__file__).parent / "facts.yml").read_text())
CACHE = Path("/cache")


def operations() -> Iterator[str]:
    """The operations of all areas, as AREA.NAME."""
    folders = Path(deploy.__file__).parent.glob("*/operations.py")
    for area in sorted(file.parent.name for file in folders):
        module = import_module(f"gpu_node.deploy.{area}.operations")
        for name, each in vars(module).items():
            if getattr(getattr(each, "_inner", None), "__module__", "") == module.__name__:
                yield f"{area}.{name}"


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
    text = text.replace(f"{scripts.HEAD}\n", "")
    for first in {each for name in FILES for each in scripts.needed(name)}:
        text = text.replace("\n" + FILES[first].read_text() + "\n", "")
    return text


def argument_shown(argument: object, found: str) -> Any:
    """An argument of a function as a case writes it."""
    if isinstance(argument, Removal):
        return asdict(argument)
    if isinstance(argument, Trial):
        return argument.path
    return shown(argument, found) if isinstance(argument, StringCommand) else argument


def script_shown(name: str, head: str, command: StringCommand, found: str) -> dict[str, str]:
    """A script's name and variables; head is what sh reads before it, so it is read as sh does."""
    variables = dict(word.split("=", 1) for word in shlex.split(head))
    if name == "by_owner":
        runs = variables["run"]
        names = filter(scripts.is_by_owner, FILES)
        name = next(each for each in names if runs.endswith(FILES[each].read_text()))
    first = scripts.needed(name)
    if "in_use" in first:
        assert variables.pop("holders").splitlines() == list(scripts.harmless_holders(name))
        assert (variables.pop("disturbs"),) == scripts._named(name, "Disturbs")
        assert variables.pop("gn_hide") == AWK
    assert variables.pop("gn_process", PROCESS) == PROCESS
    alone = variables.pop("lock", "") == scripts.LOCK
    assert alone == (
        name
        not in (
            *("settle", "settings", "remount", "persistence", "as_user", "ssh_modes", "ssh_folder"),
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
    if name == "as_user" or "copier" in first:
        assert variables.pop("as_user") == AS_USER
    if name == "as_user":
        variables["run"] = run_shown(variables["run"])
    if "sent" in first:
        assert [variables.pop(each) for each in ("sent", "sent_sum", "pushed")] == ["", "", ""]
    if "proxy" in first:
        assert [variables.pop(each) for each in ("proxy", "direct")] == ["", ""]
    if name in ("cmake", "persistence"):
        assert variables.pop("owner") == OWNER
    if "backups" in variables or "noted" in first:
        assert variables.pop("backups") == replacement.backups()
    if scripts.is_by_owner(name):
        variables = by_owner(name, variables)
    if name == "replace":
        variables = replaced(variables, unescaped(command), found)
    return {"script": name, **variables}


def by_owner(name: str, outer: dict[str, str]) -> dict[str, str]:
    """The variables of the script that runs as an environment's owner."""
    assert outer.pop("owner") == f"{OWNER}{ENVIRONMENT_OWNER}"
    assert outer.pop("tidy") == f"sent='' pushed=''\n{FILES['sent'].read_text()}"
    head = without_first(outer.pop("run").removesuffix(FILES[name].read_text()))
    variables = dict(word.split("=", 1) for word in shlex.split(head))
    assert (variables.pop("asked"), variables.pop("supply")) == (ASKED, SUPPLY)
    assert outer.items() <= variables.items()
    if (variables["hashes"], variables["insecure"]) == ("", "no"):
        del variables["hashes"], variables["insecure"]
    return variables


def replaced(outer: dict[str, str], new: str, found: str) -> dict[str, str]:
    """A replacement as a case writes it, with the seconds after which the node undoes it."""
    assert (outer["after"], outer["again"]) == (sha(new), "yes")
    assert (outer["pending"], outer["as_user"]) == (replacement.PENDING, AS_USER)
    inner = inner_of("write", outer["write"])
    for key in ("file", "before", "after"):
        assert inner[key] == outer[key]
    assert inner["owner"] == (outer["user"] or "root")
    if outer["confirm"] == "0":
        assert outer["record"] == outer["undo"] == ""
    else:
        assert outer["record"].startswith(f"{replacement.PENDING}/{outer['key']}-")
        undo = inner_of("undo", outer["undo"])
        assert {key: outer[key] for key in ("user", "record", "then")}.items() <= undo.items()
        back = inner_of("write", undo["write"])
        assert (back["before"], back["after"]) == (inner["after"], inner["before"])
    checked = "findmnt" if "findmnt --verify" in inner["check"] else inner["check"]
    checked = "dockerd" if "dockerd --validate" in checked else checked
    shown = {
        "file": outer["file"],
        "before": "as found" if outer["before"] == sha(found) else outer["before"],
        "check": "bash -n" if checked == BASH_CHECK else checked,
        "confirm": "" if outer["confirm"] == "0" else outer["confirm"],
        "content": new,
    }
    shown |= {"user": outer["user"]} if outer["user"] else {}
    is_odd = outer["before"] == "absent" and inner["mode"] != "644"
    return shown | ({"mode": inner["mode"]} if is_odd else {})


def inner_of(name: str, text: str) -> dict[str, str]:
    """The variables of a script that another one runs."""
    assert text.endswith(FILES[name].read_text())
    head = text.split(f"\n{FILES[scripts.needed(name)[0]].read_text()}", 1)[0]
    return dict(word.split("=", 1) for word in shlex.split(head))


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


def facts_of(name: str, case: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the facts of a case, its own or an answer of facts.yml with a change."""
    if "facts" in case:
        return case["facts"]  # type: ignore[no-any-return]
    given = ANSWERS[name]
    answer = case_files.merged(given["found"], case.get("found", {}))
    return {given["asks"]: {given["with"]: answer} if "with" in given else answer}


def outcome(name: str, case: Mapping[str, Any]) -> tuple[list[Any], str | None, list[str]]:
    """Run an operation on a host of that case's facts; its commands and what it says of none.

    The last are the lines of files.
    """
    module, operation = name.split(".")
    function = getattr(import_module(f"gpu_node.deploy.{module}.operations"), operation)
    state = FakeState()
    facts = facts_of(name, case)
    host = create_host(state, facts={_in_its_module(key): each for key, each in facts.items()})
    with ctx_state.use(state), ctx_host.use(host):
        commands = list(function._inner(**case["kwargs"]))
    files = facts.get("file_bytes.FileBytes", {})
    found = next(iter(files.values()))["text"] if files else ""
    lines = node_of(host).lines.get(None, [])
    return [shown(command, found) for command in commands], host.noop_description, lines


def test_each_operation_has_a_case_of_each_kind() -> None:
    """No operation goes without a case that changes something and one with nothing to do."""
    kinds = {(case.subject, "noop" in case.data) for case in CASES}
    assert kinds == {(name, kind) for name in operations() for kind in (True, False)}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_case(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """From these facts follow these commands and no others, or none, with the reason."""
    for module in (controller, toolchain):
        monkeypatch.setattr(module, "cache", lambda: CACHE)
    monkeypatch.setattr(replacement, "run", lambda: "RUN")
    monkeypatch.setattr(transactions, "foresee", lambda *_: None)
    commands, printed, lines = outcome(case.subject, case.data)
    assert lines == case.data.get("shows", lines)
    assert commands == case.data.get("commands", [])
    assert printed == case.data.get("noop")
