"""The kinds of value a cluster file holds: what each accepts, and the words that say so.

Where a person writes another type than the one that is made of it, json_schema_input_type has it.
"""

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion
from packaging.version import Version as AnyVersion
from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictInt, ValidationInfo

from gpu_node.inventories.errors import Wrong
from gpu_node.inventories.fields.addresses import ADDRESS, is_address, is_of_no_machine, login_of
from gpu_node.inventories.fields.sizes import ALLOWED as A_SIZE
from gpu_node.inventories.fields.sizes import parse_size

WRITTEN = {"written": True}
"""Validation context of what a person wrote: sizes are text there, and plain bytes in Python."""

IFNAME = "NCCL_SOCKET_IFNAME"
# The key of the inventory with the packages for each package manager.
FAMILIES: Mapping[str, str] = {"apt-get": "apt", "dnf": "rpm", "yum": "rpm"}
_TWICE = "one package is listed twice"
# What apt (a-z0-9+.-) and rpm (also _ and capitals) allow in a name.
_SYSTEM_PACKAGE = r"(?!.*[._-][0-9]{3}\.[0-9]{2,3}(\.[0-9]+)?(-|$))[A-Za-z0-9][A-Za-z0-9+._-]*"
_PLAIN_PATH = r"/[A-Za-z0-9._+/-]*"
_LABEL = r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_HOST_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*", re.IGNORECASE | re.ASCII)


def _text(value: object) -> str:
    if isinstance(value, bool):
        raise ValueError("this reads as true or false: put it in quotes")
    if isinstance(value, int | float):
        raise ValueError("this reads as a number: put it in quotes")
    if not isinstance(value, str):
        raise ValueError("")
    if value.startswith("-"):
        raise ValueError("a leading - would be read as an option")
    return value


def matching(pattern: str) -> BeforeValidator:
    """Text that a pattern matches from end to end."""

    def check(value: object) -> str:
        text = _text(value)
        if not re.fullmatch(pattern, text):
            raise ValueError("")
        return text

    return BeforeValidator(check)


def listed(pattern: str, what: str, least: int = 1) -> BeforeValidator:
    """A list of texts that a pattern matches, or text with commas, which is how --data has one."""

    def check(value: object) -> tuple[str, ...]:
        items = value.split(",") if isinstance(value, str) else value
        if not isinstance(items, list | tuple) or len(items) < least:
            raise ValueError("")
        for each in items:
            if not re.fullmatch(pattern, _text(each)):
                raise ValueError(f"{each!r} is not {what}")
        return tuple(items)

    return BeforeValidator(check, json_schema_input_type=str | list[str])


def _address(value: object) -> str:
    text = _text(value)
    is_ip = bool(re.fullmatch(r"[0-9A-Za-z.:%_-]+", text)) and is_address(text)
    if is_ip and is_of_no_machine(text):
        then = "write the address of the node: there, ip address shows it"
        raise Wrong("not the address of one machine", then)
    if is_ip or (_HOST_NAME.fullmatch(text) and not text.rpartition(".")[2].isdecimal()):
        return text
    if re.fullmatch(r"[0-9]+(\.[0-9]+){3}", text):
        then = "write four numbers, each 0 to 255, without leading zeros"
        raise Wrong("not an IPv4 address", then)
    if text.startswith("@"):
        then = "write the address alone; this machine needs no inventory: gpu-node drift @local"
        raise Wrong("a connector of pyinfra", then)
    first_of, _, _ = text.partition("-")
    if first_of != text and is_address(first_of):
        raise Wrong("a range of addresses", "write an entry under hosts for each node")
    keys = login_of(text)
    if keys.get("address", text) == text:
        raise ValueError("")
    keys["address"] = _address(keys["address"])
    why = ", ".join(f"{key} is a separate key" for key in keys if key != "address")
    *first, last = (f"{key}: {each}" for key, each in keys.items())
    raise Wrong(why, f"write {' and '.join([', '.join(first), last] if first else [last])}")


def _url(value: object) -> str:
    text = _text(value)
    if not re.fullmatch(r"https?://[A-Za-z0-9._~:/?#@!$&()*+,;=%\[\]-]+", text):
        raise ValueError("")
    if not urlsplit(text).hostname:
        raise ValueError("it has no server name")
    return text


def _proxy_url(value: object) -> str:
    text = _text(value)
    parts = urlsplit(text)
    if "@" in text:
        raise ValueError("no password is stored: let the proxy accept the nodes' addresses")
    if not re.fullmatch(r"https?://[A-Za-z0-9.:\[\]-]+/?", text) or not parts.hostname:
        raise ValueError("")
    try:
        _ = parts.port
    except ValueError:
        raise ValueError("it has no valid port") from None
    return text.rstrip("/")


def _sha256(value: object) -> str:
    text = _text(value).lower()
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise ValueError(f"{len(text)} characters" if len(text) != 64 else "")
    return text


def _sized(*words: str) -> BeforeValidator:
    """A size, or one of the words; bytes as a number only from Python code."""

    def check(value: object, info: ValidationInfo) -> object:
        if info.context != WRITTEN and type(value) is int and value > 0:
            return value
        if not isinstance(value, str):
            is_size = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
            raise ValueError("the unit is missing" if is_size else "")
        return value if value in words else parse_size(value)

    return BeforeValidator(check, json_schema_input_type=str)


def _nofile(value: object) -> object:
    if value == "unlimited":
        raise ValueError("the kernel needs a number here, at most fs.nr_open")
    return value


def is_plain_path(text: str) -> bool:
    """Whether a text is an absolute path that needs no quotes in any file or shell."""
    return bool(re.fullmatch(_PLAIN_PATH, text))


def require_once(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return a list; ValueError where it has a word, or a folder with and without its /, twice."""
    if len({each.rstrip("/") for each in words}) < len(words):
        raise ValueError("one of them is listed twice")
    return words


def _of_environments(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Folders, of which none is the Python in one."""
    right = [re.sub(r"/bin/(python[0-9.]*)?/?$", "", folder) for folder in folders]
    if wrong := [folder for folder in folders if folder not in right]:
        then = f"write [{', '.join(right)}]"
        raise Wrong(f"{wrong[0]} is in the folder of an environment, which is meant", then)
    return folders


def _pins(value: object) -> object:
    """Packages with their versions, or text as --data says it: pyarrow==15.0.2,six==1.16.0."""
    if isinstance(value, str):
        halves = [entry.partition("==") for entry in value.split(",")]
        value = {name.strip(): version.strip() for name, _, version in halves}
        if len(value) < len(halves):
            raise ValueError(_TWICE)
    return each_once(value, lambda name: canonicalize_name(str(name)))


def each_once(value: object, spelled: Callable[[object], object]) -> object:
    """Return a mapping that has an entry, and none in two spellings; else the reason why not."""
    if not isinstance(value, dict) or not value:
        raise ValueError("")
    if len(set(map(spelled, value))) < len(value):
        raise ValueError(_TWICE)
    return value


def _package(name: object) -> str:
    is_name = r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
    if not isinstance(name, str) or not re.fullmatch(is_name, name):
        raise ValueError(f"{name!r} is not a package name")
    plain = str(canonicalize_name(name))
    if plain.startswith("nvidia-nccl-"):
        raise ValueError(f"{plain} follows torch: set it with nccl: {{version: ...}}")
    return plain


def _pinned(version: object) -> str:
    try:
        return str(AnyVersion(_text(version)))
    except InvalidVersion:
        raise ValueError("not a version" if version else "no version") from None


def _driver(value: object) -> str:
    """A driver's version, or its branch, which reads as a number and may."""
    text = str(value) if type(value) is int else _text(value)
    if not re.fullmatch(r"[1-9][0-9]{2}(\.[0-9]{2,3}){0,2}", text):
        raise ValueError("")
    return text


# A trillion is more than a model has; 7e9 is text in YAML 1.1, 7.0e+9 a number.
_PARAMETERS = re.compile(
    r"([0-9]{1,13}(?:\.[0-9]{1,12})?)(?:e\+?([0-9]{1,2})|([MBT]))?", re.IGNORECASE
)
_MOST_PARAMETERS = 10**14
_SCALES = {"M": 6, "B": 9, "T": 12}


def _parameters(value: object) -> int:
    """A number of parameters: 7000000000, 7e9 or 7B; 70 is a size that lacks its unit."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("")
    match = _PARAMETERS.fullmatch(str(value))
    if match is None:
        raise ValueError("")
    digits, power, unit = match.groups()
    exponent = int(power) if power else _SCALES[unit.upper()] if unit else 0
    count = int(Decimal(digits).scaleb(exponent))
    if count < 10**5:
        raise ValueError("it has fewer parameters than any model: is the unit missing?")
    if count > _MOST_PARAMETERS:
        raise ValueError("no model has so many")
    return count


# What people write in place of {node}: other words in braces are the shell's, or awk's, and the
# others a format, or this machine's variables, where the node is named, too.
_NO_PLACE = re.compile(
    r"(?<!\$)\{(?:hosts?|hostname|name|nodes|nodename)\}"
    r"|^(?!.*\{node\}).*?((?<==)%[nNh]\b|<(?:node|host)(?:s|name)?>"
    r"|\$[A-Z_]*(?:NODE|HOST)[A-Z]*|\$\{[A-Z_]*(?:NODE|HOST)[A-Z]*\})"
)


def _naming_the_node(value: object) -> object:
    """Refuse another placeholder than the node's, and several lines."""
    lines = value.strip().split("\n") if isinstance(value, str) else value
    if isinstance(lines, list) and lines[1:] and all(isinstance(each, str) for each in lines):
        raise Wrong("it takes one line", f"write {json.dumps(' && '.join(lines))}")
    if isinstance(value, str) and (match := _NO_PLACE.search(value)):
        wrong = match[1] or match[0]
        why = "no name of the node on the controller" if wrong[0] == "$" else "not replaced"
        raise Wrong(f"{wrong} is {why}", f"write {{node}} in place of {wrong}")
    return value


@cache
def launchers() -> Mapping[str, str]:
    """Return the launcher of each program and module, as their rows have them in a room above."""
    text = (Path(__file__).parents[2] / "drift/job/launchers.yml").read_text("utf-8")
    rows = re.findall(r"^  ([a-z]+):\n    names: (.*)", text, re.MULTILINE)
    return {name: kind for kind, names in rows for name in names.split()}


def _number_of(things: str, *, least: int, most: int, example: int) -> Any:
    """A number of things within bounds, and the words that say so."""
    allowed = f"a whole number of {things}, {least} to {most}, without unit or quotes"
    return Field(ge=least, le=most, examples=[example], description=allowed)


def reason(error: Exception) -> str:
    """Return the reason of a check above; the description of the kind lists what is allowed."""
    text = str(error)
    return "" if text == f"not {A_SIZE}" else text


Name = Annotated[
    str,
    matching(_LABEL),
    Field(examples=["a100"], description="lower-case letters, digits and -, such as a100-01"),
]


def _stack(size: int) -> int:
    """Each thread reserves so much: 8G would fill the memory; with 1K no program starts."""
    if not 1 << 20 <= size <= 1 << 30:
        raise ValueError("")
    return size


HostName = Annotated[
    str,
    matching(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*"),
    Field(
        examples=["a100-01"],
        description="a host name: lower-case letters, digits, - and ., such as a100-01",
    ),
]
Address = Annotated[
    str,
    BeforeValidator(_address),
    Field(examples=["10.0.0.4"], description=ADDRESS),
]
User = Annotated[
    str,
    matching(r"[A-Za-z_][A-Za-z0-9_.-]*"),
    Field(examples=["root"], description="a user name, such as root"),
]
EXISTING_FILE = "an existing file; a relative path starts at the cluster file"
FilePath = Annotated[
    str,
    matching(r"(?!(?i:none)$)[^\x00-\x1f]+"),
    Field(examples=["id_ed25519"], description=EXISTING_FILE),
]
Command = Annotated[
    str,
    matching(r"[^\x00-\x1f]*[^\x00-\x20][^\x00-\x1f]*"),
    BeforeValidator(_naming_the_node),
    Field(
        examples=["scontrol resume {node}"],
        description="one line of sh, {node} being the node's name in quotes",
    ),
]
RepositoryKey = Annotated[
    str,
    matching(r"[^\x00-\x1f]+"),
    Field(
        examples=["unsigned"],
        description="the file of the repository's public key (-----BEGIN PGP), or unsigned",
    ),
]
Port = Annotated[
    StrictInt,
    Field(ge=1, le=65535, examples=[22], description="a port number, 1 to 65535, without quotes"),
]
Switch = Annotated[StrictBool, Field(examples=[True], description="true or false")]
GpuModel = Annotated[
    str,
    # None and 8xA100 are no names: the word is none, and the count is a key.
    matching(
        r"none|(?!(?i:none)$|[0-9]{1,2}$|[0-9]+ ?x ?[A-Za-z])(?!.*[A-Za-z0-9] ?x ?[0-9]{1,2}$)"
        r"[A-Za-z0-9][A-Za-z0-9 ._+-]*"
    ),
    Field(
        examples=["A100"],
        description="the name nvidia-smi gives it or a part of it, such as A100, or none",
    ),
]
Count = Annotated[
    StrictInt, Field(ge=1, le=64, examples=[8], description="a whole number, 1 to 64")
]
Size = Annotated[int, _sized(), Field(examples=["8G"], description=A_SIZE)]
Stack = Annotated[
    int,
    _sized(),
    AfterValidator(_stack),
    Field(examples=["8M"], description="1M to 1G, such as 8M"),
]
Memlock = Annotated[
    int | Literal["unlimited"],
    _sized("unlimited"),
    Field(examples=["unlimited"], description=f"unlimited, or {A_SIZE}"),
]
Nofile = Annotated[
    StrictInt,
    _number_of("files", least=1024, most=1 << 30, example=65536),
    BeforeValidator(_nofile),
]
# The kernel's PID_MAX_LIMIT.
Nproc = Annotated[StrictInt, _number_of("processes", least=1024, most=1 << 22, example=65536)]
Version = Annotated[
    str,
    matching(r"[0-9]+\.[0-9]+\.[0-9]+(-rc[0-9]+)?"),
    Field(examples=["3.25.2"], description="""a full version in quotes, such as "3.25.2\""""),
]
Url = Annotated[
    str,
    BeforeValidator(_url),
    Field(examples=["https://example.org/a"], description="an http:// or https:// URL"),
]
ProxyUrl = Annotated[
    str,
    BeforeValidator(_proxy_url),
    Field(
        examples=["http://10.0.0.2:3128"],
        description="an http:// or https:// URL of a proxy, without a password",
    ),
]
Direct = Annotated[
    tuple[str, ...],
    listed(r"[.*]?[A-Za-z0-9][A-Za-z0-9.:/-]*", "a host, a domain or an address"),
    Field(
        examples=[[".example.org"]],
        description="a list of hosts, domains and addresses, such as [.example.org, 10.0.0.4]",
    ),
]
Sha256 = Annotated[
    str,
    BeforeValidator(_sha256),
    Field(examples=["0" * 64], description="64 hex digits, as sha256sum prints them"),
]
Fetch = Annotated[
    Literal["node", "controller"],
    Field(
        examples=["node"],
        description="node (it downloads) or controller (this machine downloads and copies)",
    ),
]
NcclVersion = Annotated[
    str,
    matching(r"match-torch|[0-9]+\.[0-9]+\.[0-9]+\+cuda[0-9]+\.[0-9]+"),
    Field(
        examples=["match-torch"],
        description="match-torch, or a version with its CUDA, such as 2.18.1+cuda12.1",
    ),
]
DriverVersion = Annotated[
    str,
    BeforeValidator(_driver, json_schema_input_type=str | int),
    Field(
        examples=["535.154.05"],
        description="""a driver's version or branch, such as "535.154.05" or 535""",
    ),
]
Pins = Annotated[
    dict[
        Annotated[str, BeforeValidator(_package)],
        Annotated[str, BeforeValidator(_pinned)],
    ],
    BeforeValidator(_pins, json_schema_input_type=str | dict[str, str]),
    Field(
        examples=[{"pyarrow": "15.0.2"}],
        description="""packages with full versions in quotes, such as {pyarrow: "15.0.2"}""",
    ),
]
SystemPackages = Annotated[
    tuple[str, ...],
    listed(_SYSTEM_PACKAGE, "a package name alone: driver.version sets the version"),
    AfterValidator(require_once),
    Field(
        examples=[["nvidia-dkms-535"]],
        description="a list of names of packages, such as [nvidia-dkms-535, nvidia-utils-535]",
    ),
]
Environments = Annotated[
    tuple[str, ...],
    listed(_PLAIN_PATH, "an absolute path without blanks"),
    AfterValidator(require_once),
    AfterValidator(_of_environments),
    Field(
        examples=[["/opt/conda/envs/dis"]],
        description="a list of folders of Python environments, such as [/opt/conda/envs/dis]",
    ),
]
Interface = Annotated[
    str,
    matching(r"auto|(?!(?i:auto|on|off|yes|no|true|false)$)[A-Za-z0-9][A-Za-z0-9_.:@-]{0,14}"),
    Field(examples=["auto"], description="auto, or the name of one interface such as eno1"),
]
Launcher = Annotated[
    Literal["deepspeed", "torchrun", "accelerate", "mpirun"],
    Field(examples=["deepspeed"], description="deepspeed, torchrun, accelerate or mpirun"),
]
Precision = Annotated[
    Literal["fp32", "tf32", "fp16", "bf16", "fp8"],
    Field(examples=["bf16"], description="fp32, tf32, fp16, bf16 or fp8"),
]
Parameters = Annotated[
    int,
    BeforeValidator(_parameters, json_schema_input_type=str | int | float),
    Field(examples=["7B"], description="a number of parameters, such as 7e9, 7B or 350M"),
]
ZeroStage = Annotated[
    StrictInt, Field(ge=0, le=3, examples=[3], description="a ZeRO stage, 0 to 3")
]
Offload = Annotated[Literal["none", "cpu"], Field(examples=["cpu"], description="none or cpu")]
