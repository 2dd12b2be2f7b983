"""cuInit: whether a program of the training user can use CUDA, whatever nvidia-smi reports."""

import re
from collections.abc import Sequence
from pathlib import Path

from gpu_node.facts.probe import owner
from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.protocol import Unreadable
from gpu_node.facts.probe.readers import by_word
from gpu_node.facts.probe.request import ProbeRequest
from gpu_node.facts.probe.shell import LIMITED, assigned, shell
from gpu_node.facts.probe.training_user import SHARED as AS_USER

_PROGRAM = (Path(__file__).parent / "on_node" / "cuda_init.py").read_text(encoding="utf-8")
# For Section.shared: what `cuda_init` needs beside the script.
SHARED = (owner.SHARED, AS_USER, ("ask_cuda", _PROGRAM))
_FOLDER = re.compile(r"[^\s*?\[\]\\'\"]+")


class CudaInit(State):
    """How cuInit of the driver's libcuda ended; `untried`: why it was not called, or "".

    `code` is its result (0: CUDA works); None if there is none: `problem` says that it does not
    end, or that the library cannot be used. `lacks`: nvidia-uvm has no "module" or no "device", so
    it was not called; `helped`: nvidia-modprobe provides that to the first program that uses CUDA.
    `library` is the path of libcuda ("": there is none), `closed` are the devices that the training
    user may not open.
    """

    code: int | None = None
    untried: str = ""
    problem: str = ""
    lacks: str = ""
    helped: bool = False
    library: str = ""
    closed: tuple[str, ...] = ()

    @property
    def works(self) -> bool:
        """Whether a program can use CUDA, as far as it was tried."""
        return self.code == 0


def script(request: ProbeRequest) -> str:
    """Return sh that defines `cuda_init`, for the training user of a request."""
    # A folder whose name the shell would split or expand is left out: the system has a Python.
    prefixes = [
        environment for environment in request.environments if _FOLDER.fullmatch(environment)
    ]
    return (
        assigned(user=request.user, prefixes=" ".join(prefixes), owner_sudo="no")
        + (owner.ENVIRONMENT_OWNER if prefixes else "")
        + LIMITED
        + shell("driver/libcuda")
        + shell("driver/cuda_init")
    )


def parse(lines: Sequence[str]) -> CudaInit:
    """Parse `cuda KIND WORDS` lines: library, closed, untried, lacks, missing, or the result."""
    rows = by_word(line.removeprefix("cuda ") for line in lines)
    words = {word: several[-1] for word, several in rows.items()}
    library, untried = words.get("library", ""), words.get("untried", "")
    values = {"library": library, "closed": rows["closed"], "untried": untried}
    if "code" in words:
        return CudaInit.model_validate({**values, "code": int(words["code"])})
    if "lacks" in words:
        lacks, _, helped = words["lacks"].partition(" ")
        return CudaInit.model_validate({**values, "lacks": lacks, "helped": helped == "helped"})
    if values["untried"]:
        return CudaInit.model_validate(values)
    return CudaInit.model_validate({**values, "problem": _problem(words)})


def _problem(words: dict[str, str]) -> str:
    if "missing" in words:
        return "no libcuda.so.1"
    if "hangs" in words:
        return "no answer within 10 s"
    if "ended" in words:
        return f"ended by signal {words['ended']}"
    if "unusable" in words:
        return f"cannot be loaded: {words['unusable']}"
    raise Unreadable("no answer")
