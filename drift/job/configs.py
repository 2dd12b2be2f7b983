"""The files of a job that others own: DeepSpeed's JSON, accelerate's YAML, the hostfile.

Only the keys that rules judge are taken; any other is passed over. The word "auto" is unknown: the
program sets the value.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from gpu_node.facts.probe.bounds import read_json
from gpu_node.inventories.yaml.guard import Refused, plain

# The forms of a hostfile, and of a list of hosts: a host, and its slots.
_FORMS = {
    "slots": (re.compile(r"^(\S+)\s+slots=([0-9]+)"), "HOST slots=NUMBER"),
    "mpi": (
        re.compile(r"^([^\s:]+)(?:\s+slots=([0-9]+)|:([0-9]+))?(?:\s.*)?$"),
        "HOST, HOST:NUMBER or HOST slots=NUMBER",
    ),
    "names": (re.compile(r"^(\S+)$"), "HOST"),
}
# No machine has so many GPUs.
_MOST_HOSTS, MOST_GPUS = 10_000, 4096
# The slots of a host that names none: unknown.
ANY = MOST_GPUS + 1
# How many characters of a wrong value are shown.
_SHOWN = 40
# Of a hostfile; its text is not shown: a line may name any file of the node.
_OTHER_FORM = "a line of another form"

T = TypeVar("T", bound=BaseModel)


def _not_auto(value: Any) -> Any:
    return None if value == "auto" else value


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, populate_by_name=True)


Count = Annotated[Annotated[int, Field(gt=0, le=2**31 - 1)] | None, BeforeValidator(_not_auto)]
Switch = Annotated[bool | None, BeforeValidator(_not_auto)]


class Precision(_Part):
    enabled: Switch = False


class Offload(_Part):
    device: Literal["none", "cpu", "nvme", "auto"] = "none"
    nvme_path: str | None = None


class Zero(_Part):
    stage: Annotated[Literal[0, 1, 2, 3] | None, BeforeValidator(_not_auto)] = 0
    offload_optimizer: Offload | None = None
    offload_param: Offload | None = None
    cpu_offload: Switch = False


class DeepSpeed(_Part):
    """The keys of DeepSpeed's configuration that are judged."""

    train_batch_size: Count = None
    train_micro_batch_size_per_gpu: Count = None
    gradient_accumulation_steps: Count = None
    bf16: Precision | None = None
    bfloat16: Precision | None = None
    fp16: Precision | None = None
    zero_optimization: Zero | None = None

    @property
    def precision(self) -> str | None:
        """The number format; None where it is unknown."""
        for name, part in (("bf16", self.bf16 or self.bfloat16), ("fp16", self.fp16)):
            if part is not None and part.enabled is not False:
                return name if part.enabled else None
        return "fp32"

    @property
    def offload(self) -> str | None:
        """Where optimizer or parameters are, if not in the GPUs: cpu, nvme, or auto (unknown)."""
        zero = self.zero_optimization or Zero()
        parts = (zero.offload_optimizer, zero.offload_param)
        devices = [part.device for part in parts if part is not None and part.device != "none"]
        return devices[0] if devices else "cpu" if zero.cpu_offload else None


class AccelerateDeepSpeed(_Part):
    deepspeed_config_file: str | None = None
    deepspeed_multinode_launcher: object = None
    zero_stage: Literal[0, 1, 2, 3] | None = None
    offload_optimizer_device: str | None = None


class Accelerate(_Part):
    """The keys of accelerate's configuration that are judged."""

    num_machines: Count = None
    num_processes: Count = None
    machine_rank: object = None
    gpu_ids: object = None
    rdzv_backend: object = None
    distributed_type: object = None
    main_process_ip: str | None = None
    main_process_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    # YAML reads no as false, and accelerate takes that for it.
    mixed_precision: Annotated[
        Literal["no", "fp16", "bf16", "fp8"] | None,
        BeforeValidator(lambda value: "no" if value is False else value),
    ] = None
    deepspeed_config: AccelerateDeepSpeed = AccelerateDeepSpeed()

    @property
    def has_ranks(self) -> bool:
        """Whether each node is started with its machine_rank; pdsh starts those of DeepSpeed."""
        is_sent = self.deepspeed_config.deepspeed_multinode_launcher != "standard"
        is_static = self.rdzv_backend in (None, "", "static")
        return is_static and not (self.distributed_type == "DEEPSPEED" and is_sent)


@dataclass(frozen=True)
class Wrong:
    """What is wrong in a file: its line (0: unknown), the key, what was found, what is allowed."""

    found: str
    allowed: str
    key: str = ""
    line: int = 0


def deepspeed(text: str) -> DeepSpeed | Wrong:
    """Return DeepSpeed's configuration in a text, as DeepSpeed reads it."""
    try:
        value = read_json(text)
    except json.JSONDecodeError as error:
        return Wrong(f"not JSON: {error.msg}", "a JSON object", line=error.lineno)
    except ValueError as error:
        return Wrong(str(error), "a JSON object with each key once")
    return _model(DeepSpeed, value, text, '"{}"')


def accelerate(text: str) -> Accelerate | Wrong:
    """Return accelerate's configuration in a text."""
    try:
        value = plain(text)
    except Refused as error:
        allowed = f"{error.allowed}, as accelerate config writes it"
        return Wrong(error.found, allowed, line=error.line)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        return Wrong(f"not YAML: {error.problem}", "a mapping", line=line)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        return Wrong(f"not YAML: {type(error).__name__}", "a mapping")
    return _model(Accelerate, value, text, "{}:")


_KEYS = "keys with values"
# What a file has instead of them.
_KINDS = {type(None): "nothing", list: "a list", str: "a text", bool: "true or false"}


def _model(model: type[T], value: Any, text: str, quoted: str) -> T | Wrong:
    if not isinstance(value, Mapping):
        return Wrong(_KINDS.get(type(value), "a number"), _KEYS)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        keys = [str(each) for each in first["loc"] if isinstance(each, str)]
        shown = _shown(first["input"])
        allowed = first["msg"].removeprefix("Input should be ")
        allowed = _KEYS if first["type"] == "model_type" else allowed
        return Wrong(shown, allowed, ".".join(keys), _line(text, keys, quoted))


def _shown(value: object) -> str:
    """Return the beginning of a value as JSON; the rest of it is not written."""
    parts = json.JSONEncoder(default=str).iterencode(value)
    return "".join(islice(parts, _SHOWN))[:_SHOWN]


def _line(text: str, keys: Sequence[str], quoted: str) -> int:
    """Return the line of a key: each is looked for behind those above it."""
    at = 0
    for key in keys:
        found = text.find(quoted.format(key), at)
        at = found if found >= 0 else at
    return text.count("\n", 0, at) + 1


def hosts(entries: Sequence[str], form: str, usual: int | None = None) -> dict[str, int] | Wrong:
    """Return the slots of each host, of the lines of a hostfile or of a list.

    `form` is that of launchers.yml, `usual` what a host of mpirun has without a number.
    """
    pattern, allowed = _FORMS[form]
    found: dict[str, int] = {}
    for number, entry in enumerate(entries, 1):
        words = (entry if form == "names" else entry.partition("#")[0]).strip()
        if not words:
            continue
        match = pattern.match(words)
        if match is None:
            return Wrong(_OTHER_FORM, allowed, line=number)
        host, text = match[1], "".join(filter(None, match.groups()[1:]))
        if host in found and form != "mpi":
            return Wrong(f"{host} a second time", "each host once", line=number)
        slots = int(text[:20]) if text else usual or ANY
        if text and slots > MOST_GPUS:
            return Wrong(f"{text[:20]} slots", f"0 to {MOST_GPUS}", line=number)
        found[host] = min(found.get(host, 0) + slots, ANY)
    if not found or len(found) > _MOST_HOSTS:
        return Wrong(f"{len(found) or 'no'} hosts", f"1 to {_MOST_HOSTS} lines: {allowed}")
    return found


def filtered(
    hosts: Mapping[str, int], include: str | None, exclude: str | None, form: str = "slots"
) -> dict[str, Sequence[int]] | Wrong:
    """Return the GPUs of each host that --include or --exclude leave.

    They are HOST:0,1 with @ between, as DeepSpeed reads them, or HOST of the form "names".
    """
    if include and exclude:
        return Wrong("--include and --exclude", "one of them")
    chosen: dict[str, Sequence[int]] = {}
    words = include or exclude or ""
    names = ((each, None) for each in words.split(",") if each)
    for host, gpus in names if form == "names" else _chosen(words):
        if host not in hosts:
            allowed = f"a host of the hostfile: {', '.join(hosts)[:200]}"
            return Wrong(f"{host}: not in the hostfile", allowed)
        wrong = sorted({gpu for gpu in gpus or () if gpu >= hosts[host]})
        if wrong:
            numbers = ", ".join(map(str, wrong[:8]))
            return Wrong(f"{host}:{numbers}", f"GPUs 0 to {hosts[host] - 1} of its slots")
        chosen[host] = range(hosts[host]) if gpus is None else gpus
    if include:
        return chosen or Wrong(repr(include), "HOST or HOST:0,1, between them @")
    left: dict[str, Sequence[int]] = {}
    for host, slots in hosts.items():
        out = {*chosen.get(host, ())}
        if len(out) < slots:
            left[host] = (
                tuple(gpu for gpu in range(slots) if gpu not in out) if out else range(slots)
            )
    return left or Wrong("no GPU is left", "one host or more that is not excluded")


def _chosen(words: str) -> Iterator[tuple[str, tuple[int, ...] | None]]:
    """Yield host and GPUs of HOST:0,1@HOST; None: all of its GPUs."""
    for part in words.split("@"):
        host, has_gpus, gpus = part.strip().partition(":")
        if host:
            numbers = [each for each in gpus.split(",") if each.strip().isdecimal()]
            yield host, tuple(int(each[:9]) for each in numbers) if has_gpus else None
