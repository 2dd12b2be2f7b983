"""The job of a command line: its launch line and files of this machine, and what the nodes have."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click
from pydantic import ValidationError

from gpu_node.cli.asking import nodes_of
from gpu_node.drift.job.job import Given, Job, job_of
from gpu_node.drift.job.launch import DEEPSPEED, SRUN, Launch, NoLaunch, below, of_script, of_words
from gpu_node.drift.job.names import UNKNOWN
from gpu_node.drift.job.words import NotClosed
from gpu_node.drift.report.seen import Seen
from gpu_node.facts.ask.gather import ask_each, limited_data
from gpu_node.facts.job.state import MOST_BYTES, parse_files, sections
from gpu_node.facts.probe.protocol import Unreadable
from gpu_node.facts.probe.request import JOB, JobAsked, request_of
from gpu_node.inventories.errors import did_you_mean, reason, shown, worded
from gpu_node.inventories.regular_file import NOT_UTF8, content
from gpu_node.inventories.wanted import JobsWanted, LauncherWanted

_LAUNCHERS = "a line of deepspeed, torchrun, accelerate launch, mpirun or srun"
_TEXT = f"a text file of at most {MOST_BYTES:,} bytes"
_SHELLS = ("sh", "bash", "sbatch")


def given_job(
    inventory: str,
    limit: Iterable[str],
    node: str | None,
    line: Sequence[str],
    folder: str | None,
    config: str | None,
) -> tuple[Given, str]:
    """Return the job of a command line, and the node that starts it."""
    nodes = nodes_of(inventory, limit)
    launcher = node or nodes[0]
    if launcher not in nodes:
        why = f"not in the inventory, or left out by --limit{did_you_mean(launcher, nodes)}"
        problem = worded(shown(launcher), why, ", ".join(nodes[:20]))
        raise click.UsageError(f"--from: {problem}")
    base = folder
    if base is None:
        base = limited_data(inventory, limit)[launcher].get("workspace_path") or ""
    launch = _launch(inventory, launcher, line, base)
    text = _here(config) if config else None
    return Given(launch, _folder(base, launch), text, config or ""), launcher


def _folder(base: str, launch: Launch) -> str | None:
    """Return where the job starts; None where only the shell knows, "" for the home."""
    folder = below(base, launch.folder)
    if UNKNOWN in folder:
        return None
    return folder if folder[:1] in ("/", "~", "") else f"~/{folder}"


def _launch(inventory: str, launcher: str, line: Sequence[str], folder: str) -> Launch:
    words = line[1:] if line[0] in _SHELLS and len(line) > 1 else line
    is_script = words != line or len(words) == 1
    place = "LAUNCH LINE"
    try:
        if not is_script:
            return of_words(line)
        if len(words) == 1 and any(blank in words[0] for blank in " \n"):
            return of_script(words[0])
        place, text = words[0], _here(words[0])
        if text is None:
            place = f"{words[0]} of {launcher}"
            text = _there(inventory, launcher, words[0], folder)
        return of_script(text)
    except NoLaunch as error:
        where = f"{place}:{error.line}" if error.line else place
        problem = worded(error.found, "", _LAUNCHERS, error.then)
        raise click.UsageError(f"{where}: {problem}") from None
    except NotClosed as error:
        problem = worded(str(error), "", "a script that sh -n accepts")
        raise click.UsageError(f"{place}:{error.line}: {problem}") from None


def _here(name: str) -> str | None:
    """Return the text of a file of this machine; None where there is none of that name."""
    try:
        return content(Path(name), MOST_BYTES).decode()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError:
        raise click.UsageError(f"{name}: {worded(NOT_UTF8, '', _TEXT)}") from None
    except OSError as error:
        raise click.UsageError(f"{name}: {worded(reason(error), '', _TEXT)}") from None


def _there(inventory: str, launcher: str, name: str, folder: str) -> str:
    """Return the text of a file of the node that starts the job, read as the training user."""
    data = limited_data(inventory, [launcher])[launcher]
    request = replace(request_of(data), job=JobAsked(folder=folder, files=(name,)))
    answer = ask_each(inventory, [launcher], sections(request)[:1])[launcher]
    if isinstance(answer, str):
        raise click.ClickException(f"{launcher}: {worded(f'no answer: {answer}')}")
    try:
        (file, *_) = parse_files(answer.sections["job.files"].require())
    except (Unreadable, ValueError) as error:
        raise click.ClickException(f"{launcher}: {worded(f'no answer: {error}')}") from None
    if file.problem:
        why = f"no such file here, and on {launcher} {file.problem}"
        raise click.UsageError(f"SCRIPT: {worded(shown(name), why, _LAUNCHERS)}")
    return file.text


def job_data(
    inventory: str, limit: Iterable[str], given: Given, parameters: str | None
) -> dict[str, object]:
    """Return the data in place of the inventory's: what is asked about the job, and its Python."""
    data: dict[str, object] = {JOB: given.asked()}
    if parameters is not None:
        try:
            data["jobs_parameters"] = JobsWanted.model_validate(
                {"parameters": parameters}
            ).parameters
        except ValidationError:
            allowed = "a number of parameters, such as 7e9, 7B or 350M"
            problem = worded(shown(parameters), "", allowed)
            raise click.UsageError(f"--parameters: {problem}") from None
    hosts = limited_data(inventory, limit).values()
    known = {str(host.get("nccl_environments")): host.get("nccl_environments") for host in hosts}
    prefix = _prefix(given)
    if prefix and len(known) == 1 and prefix not in (named := next(iter(known.values())) or []):
        data["nccl_environments"] = [*named, prefix]
    return data


def _prefix(given: Given) -> str:
    """Return the Python environment that the line names by a path; empty where it names none."""
    for program in reversed(given.programs):
        folder, name = posixpath.split(program)
        if program.startswith("/") and folder.endswith("/bin") and name not in ("mpirun", SRUN):
            prefix = folder.removesuffix("/bin")
            return "" if prefix in ("", "/usr", "/usr/local") else prefix
    return ""


def with_job(given: Given, launcher: str, seen: Mapping[str, Seen]) -> tuple[Job, dict[str, Seen]]:
    """Return the job as the nodes' answers complete it, and each answer with what it asks."""
    states = {name: each.state.job for name, each in seen.items() if each.state is not None}
    peers = next((each.nodes for each in seen.values() if each.nodes), ())
    job = job_of(given, launcher, states, [peer for peer in peers if peer.name in seen])
    is_sent = given.launch.kind == DEEPSPEED and len(job.members) > 1
    asked = {}
    for name, each in seen.items():
        change: dict[str, object] = {"jobs": job.wanted(each.wanted.jobs)}
        if is_sent:
            start = each.wanted.launcher or LauncherWanted()
            change["launcher"] = start.model_copy(update={"kind": DEEPSPEED})
        others = tuple(peer for peer in each.nodes if peer.name in job.members)
        wanted = each.wanted.model_copy(update=change)
        asked[name] = replace(each, wanted=wanted, nodes=others or each.nodes, task=job)
    return job, {name: each for name, each in asked.items() if name in {*job.members, launcher}}
