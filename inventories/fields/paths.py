"""The kinds of value that name directories of a node, and what is copied into them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictInt,
    ValidationInfo,
    model_validator,
)
from typing_extensions import Self

from gpu_node.inventories.errors import Wrong
from gpu_node.inventories.fields.kinds import (
    _LABEL,
    WRITTEN,
    Size,
    Switch,
    User,
    _text,
    listed,
    matching,
    require_once,
)
from gpu_node.inventories.model import Model

# The word for the machine that all this runs on, where the name of a node may stand.
CONTROLLER = "controller"
NODE_NAME = "the name of a node under hosts"


def relative(pattern: object, folders: Iterable[str]) -> str:
    """Return the form of an absolute pattern that is relative to the source; nothing for others.

    `folders` are those that the source goes by; what is in none of them loses its / alone.
    """
    if not isinstance(pattern, str) or not pattern.startswith("/"):
        return ""
    return _below(pattern, folders) or pattern.lstrip("/") or "*"


def is_below(pattern: str, folders: Iterable[str]) -> bool:
    """Whether a path is in one of the folders that the source goes by, or is one of them."""
    return bool(_below(pattern, folders))


def _below(pattern: str, folders: Iterable[str]) -> str:
    for folder in folders:
        start = folder.rstrip("/")
        if f"{pattern.rstrip('/')}/".startswith(f"{start}/"):
            return pattern[len(start) :].lstrip("/") or "*"
    return ""


def filled(value: object) -> object:
    """Return a list with an entry or more; ValueError for anything else."""
    if not isinstance(value, list | tuple) or not value:
        raise ValueError("")
    return value


def _each_once(directories: tuple[Directory, ...]) -> tuple[Directory, ...]:
    require_once(tuple(each.path for each in directories))
    return directories


def _directory_mode(value: object) -> str:
    text = _text(value)
    if not re.fullmatch(r"[0-7]?[0-7]{3}", text):
        raise ValueError("")
    bits = [int(digit) for digit in text[-3:]]
    if any(bit & 4 and not bit & 1 for bit in bits):
        # Who can list it is to enter it; write permission for all is never suggested.
        owner, group, others = (bit | 1 if bit & 4 else bit for bit in bits)
        meant = f"{text[:-3]}{owner}{group}{others & 5}"
        raise Wrong("a directory needs x to be entered", f'write mode: "{meant}"')
    return text


# What a copy would mix with the system's own files, and with `delete` clear away.
_SYSTEM = (
    *("bin", "boot", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "opt", "proc", "root"),
    *("run", "sbin", "srv", "sys", "tmp", "usr", "var"),
)


def _share(value: object, info: ValidationInfo) -> object:
    """A share in percent; as a number only from Python code."""
    if info.context != WRITTEN and type(value) is int:
        return value
    match = re.fullmatch(r"([0-9]{1,3})%", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError("the % is missing" if isinstance(value, int) else "")
    return int(match[1])


def _folder(value: object) -> str:
    text = _text(value)
    if text.startswith("~"):
        then = "write the whole path, such as /home/alice/llm"
        raise Wrong("~ is another directory for each user", then)
    if not re.fullmatch(r"/[A-Za-z0-9._+-][A-Za-z0-9._+/-]*", text):
        raise ValueError("")
    if {".", ".."} & {*text.split("/")}:
        raise ValueError("it must not contain . or ..")
    return text


# Where all is the system's own: with another owner or mode sshd, sudo or all users may fail.
_WHOLE = ("bin", "boot", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys")


def _for_data(path: str) -> bool:
    """Whether a directory of the system is there for the data of a site."""
    return path.strip("/") in ("media", "mnt", "opt", "srv")


def _is_of_system(path: str) -> bool:
    first, *below = path.strip("/").split("/")
    return first in _SYSTEM and (not below or first in _WHOLE)


def _tree(value: object) -> str:
    text = _folder(value)
    if _is_of_system(text):
        raise ValueError("it is a directory of the system")
    return text


Folder = Annotated[
    str,
    BeforeValidator(_folder),
    Field(
        examples=["/data/models"],
        description="an absolute path without blanks, such as /data/models",
    ),
]
Python = Annotated[
    str,
    BeforeValidator(_folder),
    Field(
        examples=["/opt/conda/envs/dis/bin/python"],
        description="the full path of a Python, such as /opt/conda/envs/dis/bin/python",
    ),
]
Tree = Annotated[
    str,
    BeforeValidator(_tree),
    Field(
        examples=["/data/workspace"], description="a separate directory, such as /data/workspace"
    ),
]
DirectoryMode = Annotated[
    str,
    BeforeValidator(_directory_mode),
    Field(examples=["775"], description="""a mode in quotes, such as "775" or "2775\""""),
]
Group = Annotated[
    str,
    matching(r"[A-Za-z_][A-Za-z0-9_.-]*"),
    Field(examples=["train"], description="the name of a group, such as train"),
]


def _source(value: object) -> object:
    name, _, folder = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    if folder.startswith("/"):
        then = f"write source: {name or CONTROLLER} and from: {folder}"
        raise Wrong("the folder is a key of its own", then)
    return value


Source = Annotated[
    str,
    matching(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*"),
    BeforeValidator(_source),
    Field(examples=["controller"], description=f"{CONTROLLER}, or {NODE_NAME}"),
]
Node = Annotated[
    str,
    matching(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*"),
    Field(examples=["a100-01"], description=NODE_NAME),
]
Patterns = Annotated[
    tuple[str, ...],
    listed(r"[^\x00-\x1f!+][^\x00-\x1f]*", "a pattern", least=0),
    Field(
        examples=[[".git/", "cache/*"]],
        description="a list of rsync's patterns, relative to the source: [.git/, cache/*]",
    ),
]


Share = Annotated[
    int,
    BeforeValidator(_share, json_schema_input_type=str),
    Field(ge=0, le=100, examples=["20%"], description="a share in percent, such as 20%"),
]
Kept = Annotated[
    StrictInt, Field(ge=0, le=100, examples=[3], description="a whole number, 0 to 100")
]


class Backup(Model):
    """What a copy deletes or overwrites is kept: of `keep` runs, and of one run `max` bytes."""

    keep: Kept = Field(default=3, title="for how many runs deleted and changed files are kept")
    max: Size = Field(default=5 << 30, title="the size that the kept files of one run may have")


# Bits of a mode that let the group or others write.
WRITTEN_BY_OTHERS = 0o022


class Directory(Model):
    """A directory that is wanted, and what is wanted of it."""

    path: Folder = Field(title="a directory that exists on the node")
    owner: User | None = Field(default=None, title="its owner")
    group: Group | None = Field(default=None, title="its group")
    mode: DirectoryMode | None = Field(default=None, title="its mode")
    recursive: Switch | None = Field(
        default=None,
        title="adds the mode's bits to what is below it: folders get all of them, files those to "
        "read and write; nothing is taken away, and .ssh stays as it is",
    )

    @model_validator(mode="after")
    def _has_a_mode(self) -> Self:
        if self.recursive and self.mode is None:
            raise Wrong("recursive needs a mode", 'add, for example, mode: "775"')
        changes = {self.owner, self.group, self.mode} != {None}
        if _is_of_system(self.path) and changes and (self.recursive or not _for_data(self.path)):
            why = f"{self.path} is a directory of the system"
            raise Wrong(why, "name the directory below it that is meant, such as /data/models")
        if ".ssh" in self.path.split("/"):
            raise Wrong(f"{self.path} is for keys: sshd decides about its mode", "remove it")
        return self


Directories = Annotated[
    tuple[Directory, ...],
    BeforeValidator(filled),
    AfterValidator(_each_once),
    Field(
        examples=[[{"path": "/data", "owner": "train", "mode": "775"}]],
        description="""a list such as [{path: /data, owner: train, mode: "775"}]""",
        title="directories that exist on the node, with owner and mode",
    ),
]
