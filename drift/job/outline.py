"""What a job is, and what of the nodes' findings stops it, for the person who is to start it."""

from collections.abc import Iterator

from gpu_node.drift.engine.blocking import OF_SEVERAL, blocks_a_job, kinds
from gpu_node.drift.engine.finding import Finding, OffFinding
from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.job.job import Job
from gpu_node.drift.job.launch import CONTAINER, PDSH
from gpu_node.drift.job.names import NODES, UNKNOWN
from gpu_node.drift.network.rules import launcher_override
from gpu_node.drift.report.model import Report
from gpu_node.drift.report.problems import problems
from gpu_node.drift.toolchain.rules_build import pdsh
from gpu_node.facts.probe.words import is_file_name
from gpu_node.inventories.fields.kinds import IFNAME
from gpu_node.inventories.plurals import counted


def stopping(report: Report, job: Job) -> Report:
    """Return the report of the job's nodes, with the findings that bear on the job alone.

    These are the errors of rules that stop such a job, what could not be read, everything about
    what the job asks, and the findings that explain one of these.
    """
    given, launch = job.given, job.given.launch
    of_it = kinds(len(job.members), bool(launch.starter))
    # job.variable judges the variables of the line, and of this shell where it starts the job.
    is_judged = given.here is not None or launch.is_cut or IFNAME in launch.variables

    def bears(name: str, finding: Finding) -> bool:
        rule = RULES.get(finding.rule)
        is_sent = given.is_deepspeed and name == job.launcher and not is_judged
        if rule is launcher_override and not is_sent:
            return False
        if rule is pdsh and launch.starter != PDSH:
            return False
        if rule is None or "a job" in rule.when or rule.stops == "asks":
            return True
        return blocks_a_job(finding, of_it)

    nodes = [name for name in report.hosts if name in job.members or name == job.launcher]
    kept = {
        (name, each.rule, each.subject): each.root
        for name in nodes
        for each in report.hosts[name].findings
        if bears(name, each)
    }
    roots = {(root.node, root.rule, root.subject) for root in kept.values() if root is not None}
    found = kept.keys() | roots

    def is_kept(name: str, each: Finding) -> bool:
        is_off = isinstance(each, OffFinding)
        return bears(name, each) if is_off else (name, each.rule, each.subject) in found

    part = report.kept(is_kept, nodes)
    return part.model_copy(update={"differences": []})


def lines(job: Job, report: Report) -> Iterator[str]:
    """Yield what the job is, what was read of it, and what is unknown; then what stops it."""
    given, launch = job.given, job.given.launch
    where = ", ".join(
        name if count is None else f"{name} ({counted(count, 'rank')})"
        for name, count in job.members.items()
    )
    zero = job.config.zero_optimization if job.config else None
    parts = [job.precision or "", f"ZeRO {zero.stage}" if zero and zero.stage is not None else ""]
    parts += [f"offload to {job.config.offload}"] if job.config and job.config.offload else []
    known = "".join(f"; {each}" for each in parts if each)
    what = launch.program if launch.kind == CONTAINER else launch.kind
    yield f"{what} on {where}{known}; started on {job.launcher}"
    here = f"{given.config_name} of this machine" if given.config is not None else ""
    there = [each for each in job.read if each]
    of = f"{', '.join(there)} of {job.launcher}" if there else ""
    if read := "; ".join(filter(None, (here, of))):
        yield f"read: {read}"
    if unknown := list(_unknown(job)):
        yield f"unknown, not judged: {', '.join(unknown)}"
    yield ""
    listed = [
        each
        for each in problems(report.hosts)
        if any(one.finding.rule in RULES for one in each.all)
    ]
    count = sum(any(_stops(one.finding) for one in each.all) for each in listed)
    may = len(listed) - count - sum(each.severity == "info" for each in listed)
    if count:
        yield f"{counted(count, 'problem')} will stop it{f', {may} more may' if may else ''}:"
    elif may:
        yield f"Nothing will stop it for certain; {counted(may, 'problem')} may:"
    else:
        yield "Nothing was found that will stop it."


def _stops(finding: Finding) -> bool:
    """Whether a finding that bears on the job stops it, and not only explains what does."""
    return blocks_a_job(finding, OF_SEVERAL | {"asks"})


def _unknown(job: Job) -> Iterator[str]:
    """Yield the options, arguments and variables whose values are unknown, and what else is.

    An empty number is one: a variable in its place may be set where the job runs; so is a text that
    can be no name.
    """
    launch = job.given.launch
    judged = {str(fault.subject) for fault in job.faults.get(NODES, ())}
    for each in launch.nested:
        for name, text in each.options.items():
            if not is_file_name(text) or (not text and name in each.row.numbers):
                yield each.row.spelled(name)
        if not is_file_name(each.script):
            yield "the program of the job"
        yield from (option for option in each.others if option not in judged)
    yield from (
        f"--{name}" if name else "an argument"
        for name, text in job.given.arguments
        if UNKNOWN in text
    )
    yield from (name for name, text in launch.variables.items() if UNKNOWN in text)
    if job.given.folder is None:
        yield "the working directory (--dir)"
    elif len(job.members) > 1 and not job.given.is_clear(job.given.folder, False):
        yield "the working directory on the other nodes (--dir)"
    yield from (*launch.unknown, *job.given.unjudged, *job.unread, *job.unfound)
