"""The job of a command line: its launch line and files of this machine, and what the nodes have."""

from __future__ import annotations

import os
import posixpath
import re
import shlex
import shutil
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click
from pydantic import ValidationError

from gpu_node.cli.asking import nodes_of
from gpu_node.drift.job import launchers
from gpu_node.drift.job.job import Given, Here, Job, job_of
from gpu_node.drift.job.launch import (
    SHELLS,
    SRUN,
    Launch,
    NoLaunch,
    below,
    of_sbatch,
    of_words,
)
from gpu_node.drift.job.names import DEEPSPEED
from gpu_node.drift.report.seen import Seen
from gpu_node.facts.ask.gather import limited_data
from gpu_node.facts.host.state import Name
from gpu_node.facts.job.state import MOST_BYTES
from gpu_node.facts.probe.request import JOB, JobAsked
from gpu_node.facts.probe.words import is_file_name
from gpu_node.inventories.errors import did_you_mean, reason, shown, worded
from gpu_node.inventories.escape import visible
from gpu_node.inventories.fields.kinds import is_plain_path
from gpu_node.inventories.nccl_variables import is_unknown, table
from gpu_node.inventories.regular_file import NOT_UTF8, content
from gpu_node.inventories.wanted import JobsWanted, LauncherWanted

_TEXT = f"a text file of at most {MOST_BYTES:,} bytes"
_SBATCH = "sbatch"
_SUFFIXES = (*(f".{each}" for each in SHELLS), ".slurm", ".sbatch")
_SHELL_SCRIPT = re.compile(rb"#![^\n]*\b(%s)\b" % "|".join(SHELLS).encode())
# What a shell takes for its own between double quotes.
_QUOTED, _ESCAPED = re.compile(r'([\\"$`])'), r"\\\1"
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def launch_of(inventory: str, line: Sequence[str], sbatch: str | None) -> Launch:
    """Return the launch of a command line, with the options of the #SBATCH lines of a file."""
    if not line and sbatch is None:
        problem = worded("nothing", "", f"{launchers.lines()}, behind --")
        raise click.UsageError(f"LAUNCH LINE: {problem}")
    try:
        launch = of_words(line or [SRUN])
    except NoLaunch as error:
        raise click.UsageError(f"LAUNCH LINE: {_refused(error, inventory)}") from None
    if sbatch is None:
        return launch
    text = here(sbatch, "--sbatch: ")
    if text is None:
        raise click.UsageError(f"--sbatch: {worded(shown(sbatch), 'no such file', _TEXT)}")
    try:
        options = of_sbatch(text)
    except ValueError as error:
        problem = worded(str(error).lower(), "", "#SBATCH lines that sbatch reads")
        raise click.UsageError(f"--sbatch: {visible(sbatch)}: {problem}") from None
    return replace(launch, options={**options, **launch.options}) if launch.kind == SRUN else launch


def _refused(error: NoLaunch, inventory: str) -> str:
    """Return why a line is no launch line; of a script, how its line is checked."""
    run = _script(error.words)
    if not run:
        then = "write the launcher first, behind --, each word by itself"
        return worded(str(error), "", launchers.lines(), then)
    is_below = not posixpath.isabs(inventory) and Path(inventory).exists()
    file = f"{'$PWD/' * is_below}{_QUOTED.sub(_ESCAPED, inventory)}"
    of = f"--sbatch {shlex.quote(run[1])} " if error.words[0] == _SBATCH else ""
    check = f'CHECK="$(command -v gpu-node) check-job {file} {of}--" {shlex.join(run)}'
    then = (
        "in the script, write ${CHECK:-} before the launcher and ${CHECK:+exit} on the next line, "
        f"and run {visible(check)} (all its other lines run)"
    )
    return worded(str(error), "a script, which is not read", launchers.lines(), then)


def _script(words: Sequence[str]) -> list[str]:
    """Return the command that runs a script, if words do; else nothing."""
    name = posixpath.basename(words[0]) if words else ""
    if name == _SBATCH:
        left = launchers.table().launchers[SRUN].options(words[1:]).left
        return ["bash", *left] if left else []
    if name in SHELLS:
        is_text = any(re.fullmatch("-[a-z]*c", each) for each in words)
        return [] if is_text or not words[1:] else [*words]
    if not words or (not name.endswith(_SUFFIXES) and not _is_shell_script(words[0])):
        return []
    return ["bash", *words]


def _is_shell_script(name: str) -> bool:
    try:
        return bool(_SHELL_SCRIPT.match(content(Path(name), MOST_BYTES)))
    except (OSError, ValueError):
        return False


def here(name: str, place: str = "") -> str | None:
    """Return the text of a file of this machine; None where there is none of that name."""
    try:
        return content(Path(name), MOST_BYTES).decode()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        why = NOT_UTF8
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
    raise click.UsageError(f"{place}{visible(name)}: {worded(why, '', _TEXT)}")


def launcher_of(inventory: str, limit: Iterable[str], node: str | None) -> str:
    """Return the node that starts the job."""
    nodes = nodes_of(inventory, limit)
    launcher = node or nodes[0]
    if launcher not in nodes:
        why = f"not in the inventory, or left out by --limit{did_you_mean(launcher, nodes)}"
        problem = worded(shown(launcher), why, ", ".join(nodes[:20]))
        raise click.UsageError(f"--from: {problem}")
    return launcher


def is_here(name: Name | None) -> bool:
    """Whether a node is this machine: a container has the kernel's boot, and another name."""
    if name is None or not name.boot or name.name != socket.gethostname():
        return False
    return _BOOT.exists() and _BOOT.read_text().strip() == name.boot


def given_job(
    inventory: str,
    launcher: str,
    launch: Launch,
    folder: str | None,
    config: str | None,
    is_started_here: bool,
) -> Given:
    """Return the job of a launch line that a node starts.

    Folder, PATH and variables of this process are the job's only where that node is this machine.
    """
    names = {name: text for name, text in os.environ.items() if _is_judged(name)}
    process, base = None, folder
    if is_started_here:
        first = launch.nested if launch.sent.path else launch.nested[:1]
        own = [each.python or each.program for each in first if not launch.prefix]
        programs = {name: shutil.which(name) or "" for name in own if name and "/" not in name}
        base = below(os.getcwd(), folder or "")
        process, names = Here("" if folder else base, programs, names), {}
    if base is None:
        base = limited_data(inventory, [launcher])[launcher].get("workspace_path")
    text = here(config) if config else None
    unjudged = tuple(f"{name} of this shell" for name in sorted(names))
    given = Given(launch, _folder(base, launch), text, config or "", process, unjudged)
    asked = given.asked() if process is None else JobAsked()
    local = filter(os.path.exists, (*asked.paths, *asked.files))
    return replace(given, own=frozenset(local))


def _is_judged(name: str) -> bool:
    """Whether a variable is one that rules judge: no other is read."""
    return name.startswith(("PET_", "OMPI_MCA_")) or name in table() or is_unknown(name)


def _folder(base: str | None, launch: Launch) -> str | None:
    """Return where the job starts; None where it is unknown."""
    folder = below(base or "", launch.folder)
    if not is_file_name(folder):
        return None
    if folder[:1] in ("/", "~"):
        return folder
    return None if base is None else f"~/{folder}"


def parameters_of(text: str | None) -> float | None:
    """Return the parameters of the model, as a person writes them."""
    try:
        return JobsWanted.model_validate({"parameters": text}).parameters
    except ValidationError:
        allowed = "a number of parameters, such as 7e9, 7B or 350M"
        raise click.UsageError(f"--parameters: {worded(shown(text), '', allowed)}") from None


def job_data(inventory: str, limit: Iterable[str], given: Given) -> dict[str, object]:
    """Return the data in place of the inventory's: what is asked about the job, and its Python."""
    data: dict[str, object] = {JOB: given.asked()}
    hosts = limited_data(inventory, limit).values()
    known = {str(host.get("nccl_environments")): host.get("nccl_environments") for host in hosts}
    prefix = _prefix(given)
    if prefix and len(known) == 1 and prefix not in (named := next(iter(known.values())) or []):
        data["nccl_environments"] = [*named, prefix]
    return data


def _prefix(given: Given) -> str:
    """Return the Python environment that the line names by a path; empty where it names none.

    Empty also for one that an inventory cannot name: its programs are judged all the same.

    DeepSpeed starts the ranks of all nodes with the Python of its own, which PATH leads to.
    """
    for each in reversed(given.programs):
        path = given.program(each, True) if given.is_deepspeed else each
        if path != each and not os.access(
            posixpath.join(posixpath.dirname(path), "python"), os.X_OK
        ):
            continue
        folder, name = posixpath.split(path)
        if folder.startswith("/") and folder.endswith("/bin") and not launchers.starts_any(name):
            prefix = folder.removesuffix("/bin")
            is_own = prefix not in ("", "/usr", "/usr/local")
            return prefix if is_own and is_plain_path(prefix) else ""
    return ""


def with_job(
    given: Given, launcher: str, seen: Mapping[str, Seen], parameters: float | None
) -> tuple[Job, dict[str, Seen]]:
    """Return the job as the nodes' answers complete it, and each answer with what it asks."""
    states = {name: each.state.job for name, each in seen.items() if each.state is not None}
    peers = next((each.nodes for each in seen.values() if each.nodes), ())
    job = job_of(given, launcher, states, [peer for peer in peers if peer.name in seen])
    is_sent = given.launch.kind == DEEPSPEED and len(job.members) > 1
    size = {} if parameters is None else {"parameters": parameters}
    # The node that starts it first: a launcher's own programs are judged on the first one.
    others = sorted(
        (peer for peer in peers if peer.name in job.members), key=lambda peer: peer.name != launcher
    )
    around = tuple(others) or peers
    asked = {}
    for name, each in seen.items():
        change: dict[str, object] = {"jobs": job.wanted(each.wanted.jobs).model_copy(update=size)}
        start, assumed = each.wanted.launcher or LauncherWanted(), dict[str, str]()
        if is_sent and name == launcher and start.kind != DEEPSPEED:
            change["launcher"] = start.model_copy(update={"kind": DEEPSPEED})
            assumed["launcher.kind"] = "launcher: deepspeed"
        made = replace(each, wanted=each.wanted.model_copy(update=change), nodes=around)
        asked[name] = replace(made, task=job, assumed=assumed)
    return job, {name: each for name, each in asked.items() if name in {*job.members, launcher}}
