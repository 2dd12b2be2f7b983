"""Secure Boot: whether it is on, and whether the firmware knows the keys that dkms signs with."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from facts.area import State
from facts.kernels import SBIN
from facts.probe import Readings, Section, Unreadable

# In the SecureBoot variable the fifth byte is the value; the four before it are its attributes.
# dkms signs with the key of its settings; else Ubuntu's with that of shim-signed, and any other
# with one that it makes. Where both are there the system decides which comes first.
_SECURE_BOOT = (
    SBIN
    + r"""
[ -d /sys/firmware/efi ] || { echo none; exit 0; }
said=
for f in /sys/firmware/efi/efivars/SecureBoot-*; do
  [ -e "$f" ] || continue
  said=closed
  case $(od -An -t u1 "$f" | awk '{ print $5 }') in (1) said=on ;; (0) said=off ;; esac
done
# A machine with UEFI that does not show its variables is not one without.
[ -n "$said" ] || { [ -n "$(ls /sys/firmware/efi/efivars 2>/dev/null)" ] && said=none; }
echo "${said:-closed}"
[ "$said" = on ] || exit 0
set -- /var/lib/dkms/mok.pub /var/lib/shim-signed/mok/MOK.der
! grep -Eqs '^ID(_LIKE)?=.*ubuntu' /etc/os-release || set -- "$2" "$1"
configured=$(sed -n 's/^[[:space:]]*mok_certificate=//p' /etc/dkms/framework.conf \
  /etc/dkms/framework.conf.d/*.conf 2>/dev/null | tail -n 1 | tr -d "\"'")
[ -z "$configured" ] || set -- "$configured"
for key; do
  [ -e "$key" ] || continue
  verdict=unknown
  if command -v mokutil >/dev/null 2>&1; then
    case $(mokutil --test-key "$key" 2>&1) in
      *'not enrolled'*) verdict=no ;;
      *'already enrolled'*) verdict=yes ;;
    esac
  fi
  printf 'key %s %s\n' "$verdict" "$key"
done
"""
)

SECTIONS = (Section("driver.secure-boot", _SECURE_BOOT),)

Firmware = Literal["on", "off", "none"]


class SecureBoot(State):
    """Whether it is on (none: not started by UEFI), and whether dkms's key is enrolled.

    `keys` are those that dkms may sign with, the one that it takes first, and whether each is
    enrolled (None: unknown). `enrolled` is that of the first; None where there is no key, too.
    """

    state: Firmware
    enrolled: bool | None
    keys: dict[str, bool | None] = Field(default_factory=dict)


def parse_secure_boot(text: str) -> SecureBoot:
    """Parse on, off, or none for a machine without UEFI; then `key yes|no|unknown PATH` lines."""
    states: dict[str, Firmware] = {"on": "on", "off": "off", "none": "none"}
    first, *rest = [*text.splitlines(), ""]
    if first not in states:
        raise Unreadable(f"no answer about Secure Boot: {first!r}")
    verdicts = {"yes": True, "no": False, "unknown": None}
    rows = [line.split(" ", 2) for line in rest if line]
    keys = {path: verdicts[verdict] for _, verdict, path in rows}
    return SecureBoot(state=states[first], enrolled=next(iter(keys.values()), None), keys=keys)


def parse(readings: Readings) -> dict[str, object]:
    """Return the value of the area's field that is about Secure Boot."""
    return {"secure_boot": readings.take("driver.secure-boot", parse_secure_boot)}
