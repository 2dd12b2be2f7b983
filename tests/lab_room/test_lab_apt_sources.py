"""Only the distribution's own sources go into the nodes' tree."""

from pathlib import Path

import pytest

from gpu_node.lab import apt_sources
from gpu_node.lab.errors import LabError

DEBIAN = """\
# comment
Types: deb
# another
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://vendor.example/apt
Suites: bookworm
Components: main
Signed-By: /usr/share/keyrings/vendor.gpg

Enabled: no
Types: deb
URIs: http://mirror.example/debian
Suites: bookworm
Components: main

Types: deb
URIs: http://vendor.example/inline
Suites: bookworm
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
"""
ONE_LINE = """\
deb http://mirror.example/ubuntu jammy main restricted
# deb-src http://mirror.example/ubuntu jammy main
deb http://mirror.example/ubuntu jammy-updates main universe
deb [arch=amd64 signed-by=/etc/apt/keyrings/docker.gpg] https://vendor.example/ubuntu jammy main
deb https://vendor.example/ubuntu jammy stable
deb http://mirror.example/ubuntu jammy-backports main
deb http://mirror.example/debian-security jammy/updates main
"""


def test_deb822_keeps_the_distributions_stanzas() -> None:
    found = apt_sources.deb822("bookworm", [DEBIAN])
    assert len(found) == 2
    assert found[0].startswith("Types: deb\nURIs: http://mirror.example/debian\n")
    assert "bookworm-security" in found[1]


def test_one_line_keeps_the_distributions_lines() -> None:
    (found,) = apt_sources.one_line("jammy", [ONE_LINE])
    suites = [line.split()[2] for line in found.splitlines()]
    assert suites == ["jammy", "jammy-updates", "jammy/updates"]


def test_no_source_is_an_error_with_the_suite(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="no source of noble main"):
        apt_sources.of_this_machine("noble", tmp_path)


def test_codename() -> None:
    assert apt_sources.codename('ID=ubuntu\nVERSION_CODENAME="noble"\n') == "noble"
    with pytest.raises(LabError, match="VERSION_CODENAME"):
        apt_sources.codename("ID=centos\n")
