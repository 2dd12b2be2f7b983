"""Compiled operators that do not run on a node: those of DeepSpeed, and what torch has built."""

import posixpath
import re
from collections.abc import Iterable, Mapping

from gpu_node.drift.tables import capability, runs_on
from gpu_node.facts.nccl.state import Environment, Operator
from gpu_node.facts.toolchain.build import Built

# Parts of an instruction set that code is compiled for where a CPU has them (-march=native).
_SETS = re.compile(r"(avx|amx|fma|f16c|bmi|gfni|vaes|vpclmul|sse4a|xop|sve|asimd)")
_SHOWN = 3


def capabilities(gpus: Iterable[str]) -> list[tuple[int, int]]:
    """Return the compute capabilities of GPUs, each once; a model of no table is left out."""
    return sorted({each for gpu in gpus if (each := capability(gpu)) is not None})


def is_foreign(architectures: tuple[str, ...], gpus: Iterable[tuple[int, int]]) -> bool:
    """Whether kernels for these architectures do not run on one of the GPUs."""
    return bool(architectures) and not all(runs_on(architectures, gpu) for gpu in gpus)


def of_other_gpus(environment: Environment, gpus: Iterable[tuple[int, int]]) -> list[Operator]:
    """Return DeepSpeed's operators of an environment that have no kernels for one of the GPUs."""
    known, gpus = environment.deepspeed, list(gpus)
    return [
        each
        for each in (known.operators if known else ())
        if each.architectures is not None and is_foreign(each.architectures, gpus)
    ]


def of_cpu(environment: Environment) -> list[Operator]:
    """Return DeepSpeed's operators for the CPU, which are compiled with -march=native."""
    known = environment.deepspeed
    return [each for each in (known.operators if known else ()) if "cpu" in name_of(each)]


def name_of(operator: Operator) -> str:
    """Return an operator's name: fused_adam of adam/fused_adam_op.cpython-310-x86_64.so."""
    return posixpath.basename(operator.name).partition(".")[0].removesuffix("_op")


def named(operators: Iterable[Operator]) -> str:
    """Return the names of operators for a report."""
    return ", ".join(dict.fromkeys(map(name_of, operators)))


def built_for(operators: Iterable[Operator | Built]) -> str:
    """Return the architectures of operators for a report."""
    architectures = {architecture for one in operators for architecture in one.architectures or ()}
    return ", ".join(sorted(architectures, key=lambda each: (len(each), each)))


def lacking(here: Iterable[str], there: Iterable[str]) -> list[str]:
    """Return the parts of the instruction set that another CPU has and this one does not."""
    return sorted({each for each in there if _SETS.match(each)} - set(here))


def shown(parts: list[str]) -> str:
    """Return some of them for a report."""
    more = f" and {len(parts) - _SHOWN} more" if parts[_SHOWN:] else ""
    return f"{', '.join(parts[:_SHOWN])}{more}"


def copied(
    theirs: Environment, gpus: Iterable[str], here: Iterable[str], there: Iterable[str]
) -> str:
    """Return what a copy of an environment brings that does not run here; empty for nothing.

    `gpus` are the models of the node, `here` and `there` the flags of both CPUs.
    """
    foreign = of_other_gpus(theirs, capabilities(gpus))
    parts = lacking(here, there) if here else []
    cpu = of_cpu(theirs) if parts else []
    texts = [f"{named(foreign)} for {built_for(foreign)}"] if foreign else []
    texts += [f"{named(cpu)}, perhaps for a CPU with {shown(parts)}"] if cpu else []
    return "; ".join(texts)


def is_of_other_cpu(built: Built, flags: Iterable[str]) -> bool:
    """Whether torch's build was compiled for vectors that the CPU does not have."""
    has = tuple(flags)
    wanted = {"AVX512": "avx512", "AVX256": "avx2"}.get(built.vectors)
    return bool(has) and wanted is not None and not any(each.startswith(wanted) for each in has)


def by_folder(built: Iterable[Built]) -> Mapping[str, list[Built]]:
    """Return what torch has built, by the folder above: that of one Python and one CUDA."""
    folders: dict[str, list[Built]] = {}
    for each in built:
        folders.setdefault(posixpath.dirname(each.folder), []).append(each)
    return folders
