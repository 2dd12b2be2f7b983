"""Stored answers: what the probe prints here, with each node's own name and address in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from bench.nodes.cluster import Node
from bench.nodes.probed import Section, framed, run_here, sections

# Sent with the time of now by answer.sh.
_LIVE = ("clock.begin", "clock.end")
_INTERFACE = "eth0"
_LINKS = f"lo 0x9 unknown 65536 - loopback\n{_INTERFACE} 0x1003 up 1500 10000 physical"
# Two GPUs as nvidia-smi, PCI and the driver list them; this machine may have none.
_GPU = "Tesla V100-PCIE-32GB"
_GPUS = {
    "driver.smi": "cuda library /usr/lib64/libcuda.so.1\ncuda code 0\ncode 0\n"
    + "\n".join(
        f"{_GPU}, GPU-8d1{each}, 32768, Enabled, Enabled, 535.154.05, Default, 7.0" for each in "bc"
    ),
    "driver.pci": "0000:18:00.0 0x1db6 nvidia\n0000:af:00.0 0x1db6 nvidia",
    "driver.library": "/usr/lib64/libnvidia-ml.so.535.154.05",
    "driver.loaded": "nvidia 535.154.05",
    "nccl.gpus": f"{_GPU}\n{_GPU}",
}


def write(folder: Path, probe: Path, hosts: Sequence[Node], home: Path) -> int:
    """Write ADDRESS.txt for each node; return the bytes of the first one."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.txt"):
        old.unlink()
    found = sections(run_here(probe, hosts[0].name, home))
    for name in _LIVE:
        del found[name]
    texts = {each.address: framed(_of(each, found, hosts)) for each in hosts}
    for address, text in texts.items():
        (folder / f"{address}.txt").write_text(text)
    return len(texts[hosts[0].address])


def _of(node: Node, found: dict[str, Section], hosts: Sequence[Node]) -> dict[str, Section]:
    """Return the sections of a node: it has its name, and its address at one interface."""
    own = {
        **_GPUS,
        "host.name": f"name {node.name}\naddress {_second(node)}\noffset +0000",
        "network.links": _LINKS,
        "network.addresses": _addresses(node),
        "network.routes": "\n".join(_route(node, each) for each in hosts),
    }
    return {name: (0, "raw", own[name]) if name in own else each for name, each in found.items()}


def _second(node: Node) -> str:
    """Return an address that is not of loopback: gloo would listen at its node's own name."""
    return node.address.replace("127.0.", "10.77.", 1)


def _addresses(node: Node) -> str:
    return "\n".join(
        _address(number, interface, address, rest)
        for number, interface, address, rest in (
            (1, "lo", "127.0.0.1/8", "scope host"),
            (2, _INTERFACE, f"{node.address}/16", "brd 127.0.255.255 scope global"),
            (2, _INTERFACE, f"{_second(node)}/16", "brd 10.77.255.255 scope global"),
        )
    )


def _address(number: int, interface: str, address: str, rest: str) -> str:
    lasting = "valid_lft forever preferred_lft forever"
    return f"{number}: {interface}    inet {address} {rest} {interface}\\       {lasting}"


def _route(node: Node, peer: Node) -> str:
    if peer == node:
        return f"{peer.name} {peer.address} local {peer.address} dev lo src {node.address} uid 0"
    return f"{peer.name} {peer.address} {peer.address} dev {_INTERFACE} src {node.address} uid 0"


def machine(answer: str) -> str | None:
    """Return the name of the machine that an answer is from."""
    found = re.search(r"^@@gpu-node script \S+ \S+ \d+ (\S+)", answer, re.MULTILINE)
    return found[1] if found else None
