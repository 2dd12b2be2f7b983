"""What an inventory allows to be installed without a proof of where it is from."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.inventories.checks.supply import SupplyWanted
from gpu_node.inventories.errors import InventoryError
from gpu_node.inventories.schema import load
from gpu_node.inventories.wanted import NodeWanted

PLAIN = {"nccl_repository_url": "http://repo.example/rpm", "nccl_repository_key": "unsigned"}


def read(folder: Path, nccl: str, more: str = "") -> NodeWanted:
    """What a cluster file wants of its one node."""
    (folder / "repo.asc").write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\n")
    path = folder / "c.yml"
    path.write_text(
        f"cluster: c\ndefaults:\n  nccl: {nccl}\n{more}groups: {{g: {{}}}}\n"
        "hosts: {h: {address: 192.0.2.1, group: g}}\n"
    )
    return load(path).hosts["h"].wanted


def test_unsigned_by_http_is_refused(tmp_path: Path) -> None:
    """By file, line and key; apt's address counts as well."""
    text = "{packages: true, repository: {url: 'http://a.example', key: unsigned}}"
    with pytest.raises(InventoryError) as refused:
        read(tmp_path, text)
    (line,) = refused.value.lines
    assert "c.yml:3: defaults.nccl.repository.url: found 'http://a.example'" in line
    assert "unsigned packages" in line and "supply: {insecure_index: true}" in line
    text = "{repository: {url: 'https://a.example', apt: 'http://a.example', key: unsigned}}"
    with pytest.raises(InventoryError, match=r"nccl\.repository\.apt"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("nccl", "more"),
    [
        ("{repository: {url: 'https://a.example', key: unsigned}}", ""),
        ("{repository: {url: 'http://a.example', key: repo.asc}}", ""),
        (
            "{repository: {url: 'http://a.example', key: unsigned}}",
            "  supply: {insecure_index: true}\n",
        ),
    ],
)
def test_what_is_proved_or_allowed(tmp_path: Path, nccl: str, more: str) -> None:
    """A server, a signature, or the inventory's word."""
    assert read(tmp_path, nccl, more).nccl is not None


def test_data_is_judged_alike() -> None:
    """--data may change one half of it."""
    with pytest.raises(InventoryError, match=r"nccl_repository_url: .*unsigned packages"):
        NodeWanted.from_data(PLAIN)
    assert NodeWanted.from_data({**PLAIN, "supply_insecure_index": True}).nccl is not None


def test_hashes(tmp_path: Path) -> None:
    """With one spelling of the names, as lines that pip reads."""
    digest = "a" * 64
    more = f"  supply: {{hashes: {{'PyArrow==15.0.2': ['sha256:{digest}', '{'B' * 64}']}}}}\n"
    supply = read(tmp_path, "match-torch", more).supply
    assert supply is not None and supply.insecure_index is None
    assert supply.lines(["pyarrow==15.0.2"]) == (
        f"pyarrow==15.0.2 --hash=sha256:{digest} --hash=sha256:{'b' * 64}"
    )
    assert supply.lines(["six==1.16.0"]) == ""
    assert supply.lines(["six==1.16.0", "pyarrow==15.0.2"]).startswith("six==1.16.0\npyarrow==")


@pytest.mark.parametrize("hashes", ["{pyarrow: [a]}", "{pyarrow==15.0.2: [abc]}", "[]", "word"])
def test_hashes_that_are_none(tmp_path: Path, hashes: str) -> None:
    """A package with its version, and 64 hex digits."""
    with pytest.raises(InventoryError, match=r"supply\.hashes"):
        read(tmp_path, "match-torch", f"  supply: {{hashes: {hashes}}}\n")


def test_nothing_is_allowed_by_default() -> None:
    """Without a word of the inventory."""
    assert NodeWanted.from_data({}).supply is None
    assert SupplyWanted().insecure_index is None
