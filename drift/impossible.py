"""What an inventory wants and no node can have, by the tables of data/ alone, or seldom means."""

from collections.abc import Iterator, Mapping

from gpu_node.drift.driver.target import (
    against_gpu,
    best,
    branch,
    branches,
    floor,
    last_cuda,
    models_by_id,
)
from gpu_node.drift.tables import capability, is_model, known_models, short_model
from gpu_node.drift.toolchain.rules_jobs import FLASH, lacking
from gpu_node.drift.toolchain.rules_jobs import shown as capable
from gpu_node.facts.env.proxies import VARIABLE, is_local
from gpu_node.inventories.advice import nested
from gpu_node.inventories.errors import KeyPath, Problem, at, dotted, shown
from gpu_node.inventories.keys import examples
from gpu_node.inventories.nccl_variables import LAUNCHER, table
from gpu_node.inventories.wanted import NodeWanted

# Branches are some 30 apart a year: one that is so far ahead of the tables is none of this decade.
_AHEAD = 100
# Keys, each with one without which nothing reads it.
_NEEDS: tuple[tuple[KeyPath, KeyPath], ...] = (
    (("toolchain", "packages"), ("nccl", "environments")),
    (("nccl", "copy_from"), ("nccl", "environments")),
    (("jobs", "offload"), ("jobs", "parameters")),
    (("jobs", "offload"), ("jobs", "zero")),
)
# What is taken for a digit, and what parts the words of a name.
_LIKE_DIGITS = str.maketrans("OIL", "011", " -_.")


def impossible(wanted: NodeWanted) -> Iterator[Problem]:
    """Yield the keys of a node whose values the tables rule out; what no table knows may be."""
    gpu = wanted.gpu.model if wanted.gpu and not wanted.is_cpu_node else ""
    if meant := _meant(gpu):
        why = f"no GPU has this name, did you mean {meant}?"
        yield Problem(("gpu", "model"), shown(gpu), why, "", f"write model: {meant}")
    driver = wanted.driver.version if wanted.driver else None
    if driver and (why := against_gpu(branch(driver), gpu) or _unknown(branch(driver))):
        then = f"write version: {best((gpu,), None)}"
        yield Problem(("driver", "version"), shown(driver), why, "", then)
    cuda = wanted.nccl.version.partition("+cuda")[2] if wanted.nccl else ""
    if cuda and (why := _of_cuda(cuda, gpu, driver)):
        then = "write version: match-torch, or one for an older CUDA"
        yield Problem(
            ("nccl", "version"), shown(wanted.nccl and wanted.nccl.version), why, "", then
        )
    own = capability(gpu)
    if own is None or wanted.jobs is None:
        return
    for need in lacking(wanted.jobs, own):
        key, found = "precision", shown(need.name)
        if need is FLASH:
            key, found = "flash_attention", "true"
        if need.severity == "error":
            why = f"{gpu} has compute capability {capable(own)}, it needs {capable(need.least)}"
            yield Problem(("jobs", key), found, why, "", f"use {need.works}")


def doubtful(wanted: NodeWanted) -> Iterator[tuple[Problem, bool]]:
    """Yield what is seldom meant, and whether it has its effect on this node all the same."""
    for problem in (*_unknown_model(wanted), *_variables(wanted.env or {}), *_proxies(wanted)):
        yield problem, False
    written = wanted.model_dump(exclude_none=True)
    for path, needed in _NEEDS:
        if (value := at(written, path)) is not None:
            example = nested(needed, next(examples(NodeWanted, needed)))
            why, then = f"no effect without {dotted(needed)}", f"write {example} too, or remove it"
            yield Problem(path, shown(value), why, "", then), at(written, needed) is not None


def _unknown_model(wanted: NodeWanted) -> Iterator[Problem]:
    """Yield a model that no known name has as it is written: V100 32GB for Tesla V100-PCIE-32GB."""
    gpu = wanted.gpu.model if wanted.gpu and not wanted.is_cpu_node else ""
    model, known = short_model(gpu), models_by_id().values()
    names = dict.fromkeys(name for name in known if model in (None, short_model(name)))
    if not gpu or _meant(gpu) or not names or any(is_model(name, gpu) for name in names):
        return
    why, then = "no known GPU has this name", "write a name that nvidia-smi -L prints there"
    allowed = "a name that nvidia-smi -L prints, or a part of it"
    if model:
        why = "no known name of this model has it"
        then = f"write model: {model}, or a name of nvidia-smi"
        allowed = f"a part of {', '.join(names)}"
    yield Problem(("gpu", "model"), shown(gpu), why, allowed, then)


def _variables(env: Mapping[str, str]) -> Iterator[Problem]:
    for name, value in env.items():
        if (row := table().get(name)) and row.kind == LAUNCHER:
            then = "remove it, unless every job is to have this value"
            yield Problem(("env", name), shown(value), row.note, "", then)


def _proxies(wanted: NodeWanted) -> Iterator[Problem]:
    env = wanted.env or {}
    urls: dict[KeyPath, str] = {("env", key): env[key] for key in env if VARIABLE.fullmatch(key)}
    if wanted.proxy:
        urls["proxy", "url"] = wanted.proxy.url
    for path, url in urls.items():
        if is_local(url):
            why = "on a node this is the node itself, not your machine"
            then = "write an address that the nodes reach, unless the proxy runs on each node"
            yield Problem(path, shown(url), why, "", then)


def _meant(gpu: str) -> str:
    """Return the model that a name is with other signs: A100 for A10O; empty for any other one."""
    if not gpu or short_model(gpu):
        return ""
    plain = gpu.upper().translate(_LIKE_DIGITS)
    alike = (each for each in known_models() if each.upper().translate(_LIKE_DIGITS) == plain)
    return next(alike, "")


def _unknown(number: int) -> str:
    newest = branches()[-1].number
    return f"branch {newest} is the newest one known" if number > newest + _AHEAD else ""


def _of_cuda(cuda: str, gpu: str, driver: str | None) -> str:
    """Return why a build for a CUDA does not run on a GPU, or by a driver."""
    if last := last_cuda(cuda, gpu):
        return f"CUDA {last} is the last for {gpu}"
    first = floor(cuda)
    if driver and first and branch(driver) < first:
        return f"CUDA {cuda} needs driver branch {first} or newer"
    return ""
