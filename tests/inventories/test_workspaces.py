"""A list of workspaces: what each level says of it, and what a node then wants."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_node.facts.probe.request import request_of
from gpu_node.inventories.errors import InventoryError
from gpu_node.inventories.schema import load
from gpu_node.inventories.wanted import NodeWanted

FILE = """\
cluster: c
defaults:
  workspace: [{path: /data/ws, source: controller, exclude: [.git/]}, {path: /data/m, source: n1}]
groups:
  one:
    workspace: {path: /data/one, source: n1}
hosts:
  n1: {address: 10.0.0.1}
  n2: {address: 10.0.0.2, workspace: [{path: /data/other, from: /srv/o, source: n1}]}
  n3: {address: 10.0.0.3, group: one}
"""


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "site.yml").write_text(FILE)
    return tmp_path / "site.yml"


@pytest.mark.parametrize(
    ("host", "paths"),
    [
        ("n1", ["/data/ws", "/data/m"]),
        ("n2", ["/data/other"]),
        ("n3", ["/data/one", "/data/ws", "/data/m"]),
    ],
)
def test_the_nearest_list_counts(site: Path, host: str, paths: list[str]) -> None:
    """A list replaces the list of a farther level; the single form is beside it."""
    cluster = load(site)
    wanted = cluster.hosts[host].wanted
    assert [each.path for each in wanted.every_workspace] == paths
    assert wanted.workspace is not None
    data = cluster.data_of(host)
    assert NodeWanted.from_data(data).every_workspace == wanted.every_workspace
    assert [each.path for each in request_of(data).copies] == paths


def test_the_probe_is_asked_for_all_of_it(site: Path) -> None:
    (copied,) = request_of(load(site).data_of("n2")).copies
    assert (copied.path, copied.origin, copied.source) == ("/data/other", "/srv/o", "n1")


def test_bad_data_is_an_error() -> None:
    with pytest.raises(InventoryError, match=r"workspaces.0.source: found nothing"):
        NodeWanted.from_data({"ssh_hostname": "10.0.0.1", "workspaces": [{"path": "/data/m"}]})
