"""The sources of the driver's packages: this machine's, with more components and one more suite."""

from __future__ import annotations

import pytest

from gpu_node.lab.kernel.native import with_driver

ALL = "main contrib non-free non-free-firmware"
# What a machine has, and what the node gets.
SOURCES = [
    ("deb http://m/ bookworm main", f"deb http://m/ bookworm {ALL}\ndeb http://m/ B {ALL}"),
    ("deb [x=y] http://m/ bookworm-security main", f"deb [x=y] http://m/ bookworm-security {ALL}"),
    (
        "Types: deb\nURIs: http://m/main\nSuites: bookworm updates\nComponents: main\nX: y",
        f"Types: deb\nURIs: http://m/main\nSuites: bookworm B updates\nComponents: {ALL}\nX: y",
    ),
    (
        "Suites: bookworm-security\nComponents: main non-free",
        f"Suites: bookworm-security\nComponents: {ALL}",
    ),
]


@pytest.mark.parametrize(("source", "wanted"), SOURCES)
def test_sources_with_the_driver(source: str, wanted: str) -> None:
    found = [line for line in with_driver(source).splitlines() if line]
    assert found == wanted.replace("B", "bookworm-backports").splitlines()
