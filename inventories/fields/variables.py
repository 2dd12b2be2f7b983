"""Environment variables of a cluster file: which names and values a start file can have."""

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, ValidatorFunctionWrapHandler, WrapValidator

from gpu_node.inventories.errors import Wrong
from gpu_node.inventories.fields.kinds import IFNAME

# Without these, or with another value, logins could fail.
_SHELLS_OWN = (
    *("PATH", "HOME", "SHELL", "USER", "LOGNAME", "PWD", "BASH_ENV", "ENV", "LD_PRELOAD"),
    *("UID", "EUID", "PPID", "SHELLOPTS", "BASHOPTS"),
)
_SECRET = re.compile(
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSPHRASE|PASSWD|API_?KEY|ACCESS_KEY|CREDENTIALS?)(_|$)"
)
# What a shell replaces by another text; ~ is a home at the beginning of a path.
_EXPANDED = re.compile(r"\$[A-Za-z_{(]|`|(?:^|:)~[\w.-]*(?:[/:]|$)")
# Variables whose reader expands a ~ itself, in all its releases, by os.path.expanduser, and where.
_READER_EXPANDS = {
    "HF_HOME": "huggingface_hub/constants.py, datasets/config.py",
    "TORCH_HOME": "torch/hub.py",
}
_HOME = re.compile(r"~/(?!.*(?:\$|`|:~))[ -~]*")
_WRITE_IT = (
    "write the value itself, such as a whole path; what a shell computes belongs in ~/.bashrc"
)


def is_secret(key: str) -> bool:
    """Whether a key has the name of a secret, which no message shows."""
    return bool(_SECRET.search(key.upper().replace("-", "_"))) or key.endswith("_pass")


def _variable(name: object) -> str:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError("not a variable name")
    if name == IFNAME:
        then = "write network: {interface: auto}, on the level of the node"
        raise Wrong("it differs by host: set it with network: {interface: ...}", then)
    if _SECRET.search(name):
        then = "remove it; let the job read it from a file that only the training user can read"
        raise Wrong("it looks like a secret, and reports show values: keep it elsewhere", then)
    if name in _SHELLS_OWN:
        raise Wrong("a login needs its own value of it", "remove it")
    return name


def _value(value: object) -> str:
    if isinstance(value, bool):
        word, number = str(value).lower(), int(value)
        raise Wrong(
            "put the value in quotes",
            f'write "{number}" for NCCL, which reads numbers; else "{word}"',
        )
    if not isinstance(value, str):
        raise ValueError("put the value in quotes")
    if not value.isascii():
        raise ValueError("")
    if not value.isprintable():
        raise ValueError("a value has one line, without control characters")
    if _EXPANDED.search(value):
        raise Wrong("no shell expands it: the variable would have these signs", _WRITE_IT)
    return value


def _homes(value: object, read: ValidatorFunctionWrapHandler) -> dict[str, str]:
    """Check the values with a home that their reader expands without it."""
    given = value if isinstance(value, dict) else {}
    homes = {
        name: text
        for name in _READER_EXPANDS
        if isinstance(text := given.get(name), str) and _HOME.fullmatch(text)
    }
    plain = {name: text.removeprefix("~/") for name, text in homes.items()}
    return {**read({**given, **plain} if homes else value), **homes}


Variables = Annotated[
    dict[
        Annotated[str, BeforeValidator(_variable)],
        Annotated[str, BeforeValidator(_value)],
    ],
    WrapValidator(_homes),
    Field(
        examples=[{"OMP_NUM_THREADS": "8"}],
        description="""variables with values in quotes, such as {OMP_NUM_THREADS: "8"}""",
        title="environment variables of the training user's shells",
    ),
]
