"""What pip and the package managers can install without a verified origin."""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from pydantic import BeforeValidator, Field

from gpu_node.inventories.errors import KeyPath, Problem, at, shown
from gpu_node.inventories.fields import kinds as fields
from gpu_node.inventories.model import Model
from gpu_node.inventories.yaml.read import Document

_SHA256 = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_REPOSITORY = ("nccl", "repository")
_WHY = (
    "unsigned packages over http: anyone on the network path can change them, and they are "
    "installed as root"
)
_ALLOWED = "an https:// URL; or the key of the repository; or supply: {insecure_index: true}"


def _requirement(key: object) -> str:
    name, _, version = str(key).partition("==")
    try:
        return f"{canonicalize_name(name.strip(), validate=True)}=={Version(version)}"
    except (InvalidVersion, ValueError):
        raise ValueError("not a package with its version") from None


def _sums(sums: object) -> tuple[str, ...]:
    listed = sums if isinstance(sums, list | tuple) else [sums]
    matches = [_SHA256.fullmatch(str(each).lower()) for each in listed]
    if not matches or not all(matches):
        raise ValueError("not the sha256 of its wheels, 64 hex digits each")
    return tuple(match[1] for match in matches if match)


Hashes = Annotated[
    dict[
        Annotated[str, BeforeValidator(_requirement)],
        Annotated[tuple[str, ...], BeforeValidator(_sums, json_schema_input_type=str | list[str])],
    ],
    BeforeValidator(lambda value: fields.each_once(value, str)),
    Field(
        examples=[{"pyarrow==15.0.2": ["0" * 64]}],
        description="""packages with the sha256 of their wheels, {pyarrow==15.0.2: [...]}""",
    ),
]


class SupplyWanted(Model):
    """Where pip and the package managers may install from."""

    insecure_index: fields.Switch | None = Field(
        default=None,
        title="allows indexes and unsigned repositories that are not verified: http, trusted-host",
    )
    hashes: Hashes | None = Field(default=None, title="pip installs only wheels with these sums")

    def lines(self, requirements: Iterable[str]) -> str:
        """Return lines of requirements for pip, with hashes; empty where none is given.

        Where one requirement has a hash the others need one, too: pip refuses them.
        """
        given = self.hashes or {}
        pairs = [each.partition("==") for each in requirements]
        names = [f"{canonicalize_name(name)}=={version}" for name, _, version in pairs]
        if not any(name in given for name in names):
            return ""
        hashes = {name: [f"--hash=sha256:{each}" for each in sums] for name, sums in given.items()}
        return "\n".join(" ".join([name, *hashes.get(name, [])]) for name in names)


def unsigned_by_http(wanted: object) -> Iterator[Problem]:
    """Yield the URLs of repositories that have neither signatures nor https."""
    if at(wanted, (*_REPOSITORY, "key")) != "unsigned":
        return
    if at(wanted, ("supply", "insecure_index")) is True:
        return
    for key in ("url", "apt"):
        url = at(wanted, (*_REPOSITORY, key))
        if isinstance(url, str) and url.lower().startswith("http://"):
            then = f"write {key}: https{url[4:]}"
            yield Problem((*_REPOSITORY, key), shown(url), _WHY, _ALLOWED, then)


def unsigned_where_set(
    document: Document, levels: Iterable[KeyPath], wanted: object
) -> Iterator[Problem]:
    """The same, at the last level of the cluster file that gives the URL."""
    layers = list(levels)
    for problem in unsigned_by_http(wanted):
        given = [level for level in layers if (*level, *problem.path) in document.lines]
        yield problem._replace(path=(*(given or layers)[-1], *problem.path))
