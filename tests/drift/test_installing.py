"""What a bare node is once its driver's packages are there: what the same run then does."""

from __future__ import annotations

from gpu_node.drift.driver.install_plan import with_driver
from gpu_node.drift.engine.check import check
from tests.drift import states

BARE = {
    "driver": {
        "kernels": {"installed": [{"name": "3.10.0-1160.el7.x86_64", "headers": False,
                                   "image": True, "module": None}]},
        "dkms": {"present": False, "sources": [], "builds": []},
        "loaded": {"nvidia": ""},
        "library": "",
        "smi": {"code": None, "gpus": [], "output": ""},
        "packages": {},
    }
}  # fmt: skip


def repairs(*names: str) -> set[str]:
    """The rules whose findings the deploy repairs once these packages are there."""
    found = with_driver(states.state(BARE), names, "535.154.05")
    return {each.rule for each in check(found, states.wanted()) if each.fixable}


def test_packages_of_dkms() -> None:
    """They bring sources: the rest is built."""
    assert repairs("nvidia-dkms-535", "nvidia-utils-535") == {
        "driver.dkms-missing",
        "driver.headers-missing",
        "driver.module-not-built",
        "driver.not-loaded",
    }


def test_packages_of_a_module() -> None:
    """They bring the module: neither dkms nor headers are put beside it."""
    assert repairs("kmod-nvidia", "nvidia-driver-cuda") == {"driver.not-loaded"}
