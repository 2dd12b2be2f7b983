"""Secure Boot: whether it is on, and whether the keys that dkms signs with are enrolled."""

from typing import Literal

from pydantic import Field

from gpu_node.facts.probe.base import Parsers, State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.shell import shell

SECTIONS = (Section("driver.secure-boot", shell("driver/secure_boot"), light=True),)

Firmware = Literal["on", "off", "none"]


class SecureBoot(State):
    """Whether it is on (none: not started by UEFI), and whether dkms's key is enrolled.

    `keys` are those that dkms may sign with, the preferred one first, and whether each is enrolled
    (None: unknown). `enrolled` is that of the first key; also None if there is no key.
    """

    state: Firmware
    enrolled: bool | None
    keys: dict[str, bool | None] = Field(default_factory=dict)


def parse_secure_boot(text: str) -> SecureBoot:
    """Parse on, off, or none for a machine without UEFI; then `key yes|no|unknown PATH` lines."""
    states: dict[str, Firmware] = {"on": "on", "off": "off", "none": "none"}
    first, *rest = [*lines_of(text), ""]
    if first not in states:
        raise Unreadable(f"no answer about Secure Boot: {first!r}")
    verdicts = {"yes": True, "no": False, "unknown": None}
    rows = [line.split(" ", 2) for line in rest if line]
    keys = {path: verdicts[verdict] for _, verdict, path in rows}
    return SecureBoot(state=states[first], enrolled=next(iter(keys.values()), None), keys=keys)


PARSERS: Parsers = {"driver.secure-boot": ("secure_boot", parse_secure_boot)}
