"""One test per case file, operations/MODULE.OPERATION/CASE.yml: facts in, commands out.

A case's node is the healthy one of the drift tests with `found` merged in and with `files`. A
script is compared by its name, its variables and the content it is sent.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyinfra.api import FileUploadCommand, FunctionCommand, StringCommand
from pyinfra.context import ctx_host, ctx_state
from pyinfra_testing.util import FakeState, create_host

from deploy.operations.toolchain import cache
from deploy.replacement import BACKUPS
from deploy.scripts import FOLDER
from tests.drift import states

CASES = Path(__file__).parent / "operations"
FILES = sorted(CASES.glob("*/*.yml"))
OPERATIONS = {
    *("limits.own_file", "shm.fstab", "shm.size", "shm.permissions", "toolchain.cmake"),
}
KEYS = {"found", "files", "kwargs", "commands", "noop"}


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def _facts(case: dict[str, Any]) -> dict[str, Any]:
    found = states.found(case.get("found")).model_dump(mode="json")
    files = {
        f"path={path}": {"exists": text is not None, "text": text or ""}
        for path, text in case.get("files", {}).items()
    }
    return {
        "shm.SharedMemory": {**found["shm"], "unreadable": {}},
        "toolchain.Toolchain": {**found["toolchain"], "unreadable": {}},
        "files.FileBytes": files,
    }


def _commands(operation: str, kwargs: dict[str, Any], host: object) -> list[object]:
    module, name = operation.split(".")
    function = getattr(import_module(f"deploy.operations.{module}"), name)
    with ctx_state.use(host.state), ctx_host.use(host):  # type: ignore[attr-defined]
        return [_described(command) for command in function._inner(**kwargs)]


def _described(command: object) -> object:
    """Return a command as a case file writes it."""
    if isinstance(command, FunctionCommand):
        return {"function": command.function.__name__, "args": list(map(_portable, command.args))}
    if isinstance(command, FileUploadCommand):
        return {"upload": Path(str(command.src)).name, "to": command.dest}
    assert isinstance(command, StringCommand)
    text = str(command.get_raw_value())
    for file in FOLDER.glob("*.sh"):
        if text.endswith(file.read_text()):
            return _described_script(file, text, command.connector_arguments.get("_stdin"))
    return text


def _portable(argument: object) -> object:
    """Return an argument with this machine's cache folder named."""
    return argument.replace(str(cache()), "CACHE") if isinstance(argument, str) else argument


def _described_script(file: Path, text: str, stdin: Iterable[str] | None) -> dict[str, object]:
    assignments = shlex.split(text.removesuffix(file.read_text()))
    variables = dict(word.split("=", 1) for word in assignments)
    if "backups" in variables:
        assert variables.pop("backups") == BACKUPS
    if stdin is None:
        return {"script": file.stem, **variables}
    (line,) = stdin
    assert re.fullmatch(r"[ -~]*", line)
    content = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), line)
    assert variables.pop("after") == hashlib.sha256(content.encode("latin-1")).hexdigest()
    variables["check"] = "yes" if variables["check"] else "no"
    return {"script": file.stem, **variables, "content": content}


def _expected(commands: list[Any], files: dict[str, str | None]) -> Iterator[object]:
    """Yield a case's commands with the sum of the file that is there filled in."""
    for command in commands:
        if isinstance(command, dict) and command.get("script") == "replace":
            old = files[command["file"]]
            known = hashlib.sha256((old or "").encode("latin-1")).hexdigest()
            yield {**command, "before": "absent" if old is None else known}
        else:
            yield command


def test_each_operation_has_a_case_with_a_change_and_one_without() -> None:
    """An operation that always, or never, does something is not tested."""
    for operation in OPERATIONS:
        cases = [yaml.safe_load(path.read_text()) for path in CASES.glob(f"{operation}/*.yml")]
        assert {bool(case["commands"]) for case in cases} == {True, False}, operation
    assert {path.parent.name for path in FILES} == OPERATIONS


@pytest.mark.parametrize("path", FILES, ids=_name)
def test_operation(path: Path) -> None:
    """These facts give exactly these commands, or none and the reason why."""
    assert path.read_text().startswith("# ")
    case = yaml.safe_load(path.read_text())
    assert case.keys() <= KEYS
    host = create_host(FakeState(), facts=_facts(case))
    found = _commands(path.parent.name, case["kwargs"], host)
    assert found == list(_expected(case["commands"], case.get("files", {})))
    assert host.noop_description == case.get("noop")
