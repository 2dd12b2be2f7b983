"""pip installs wheels alone, and from no server that is not proved unless the inventory says so."""

from __future__ import annotations

import hashlib
import os
import pwd
import subprocess
from pathlib import Path

import pytest

from gpu_node.deploy.engine.scripts import script
from gpu_node.deploy.files import downloads as controller
from gpu_node.facts.nccl.on_node.supply import problems
from gpu_node.lab.wheels import wheel
from tests import environments
from tests.environments import Environment

# Lines of pip.conf, and what of them is named; nothing where they are right.
SETTINGS: dict[str, tuple[dict[str, str], str]] = {
    "nothing": ({}, ""),
    "https": ({"global.index-url": "https://example.org/simple"}, ""),
    "folders": ({"global.find-links": "/srv/wheels file:///srv/more"}, ""),
    "an index": (
        {"global.index-url": "http://example.org/simple"},
        "global.index-url = http://example.org/simple",
    ),
    "a variable": ({":env:.index-url": "HTTP://example.org"}, ":env:.index-url = HTTP://"),
    "one of several": (
        {"install.extra-index-url": "https://a.example\nhttp://b.example"},
        "install.extra-index-url",
    ),
    "a password": ({"global.index-url": "http://me:secret@a.example"}, "http://...@a.example"),
    "this machine's own port": ({"global.index-url": "http://localhost:3141"}, "index-url"),
    "a page of links": ({"download.find-links": "http://a.example/wheels"}, "find-links"),
    "a trusted host": ({"global.trusted-host": "a.example"}, "global.trusted-host = a.example"),
    "another Python": ({"global.python": "/srv/python"}, "global.python = /srv/python"),
    "an index that is not asked": (
        {"global.no-index": "true", "global.index-url": "http://a.example"},
        "",
    ),
    "another command asks no index": (
        {
            "wheel.no-index": "true",
            "freeze.no-index": "yes",
            "global.index-url": "http://a.example",
        },
        "index-url",
    ),
    "install asks one": (
        {
            "global.index-url": "http://a.example",
            "global.no-index": "true",
            "install.no-index": "false",
        },
        "index-url",
    ),
    "the environment decides": (
        {
            ":env:.no-index": "0",
            "global.index-url": "http://a.example",
            "global.no-index": "true",
            "install.no-index": "true",
        },
        "index-url",
    ),
    "an empty variable does not": (
        {
            ":env:.no-index": "",
            "global.index-url": "http://a.example",
            "install.no-index": "true",
        },
        "",
    ),
    "a section in capitals": (
        {"GLOBAL.no-index": "true", "global.index-url": "http://a.example"},
        "index-url",
    ),
    "a scheme of no server": ({"global.index-url": "gopher://a.example"}, "index-url"),
    "a missing folder in /tmp": ({"install.find-links": "/tmp/none-here"}, "find-links"),
    "the same as a URL": ({"install.index-url": "file:///tmp/none-here?a#b"}, "index-url"),
    "an authority in /tmp": ({"global.cert": "/tmp/none here"}, "global.cert = /tmp/none here"),
    "sources beside it": ({"install.editable": "git+https://a.example/x"}, "install.editable"),
    "constraints by http": ({"global.constraint": "http://a.example/c.txt"}, "constraint"),
}


@pytest.mark.parametrize("case", SETTINGS)
def test_settings(case: str) -> None:
    """A setting that lets another machine pose as the server is named, without its password."""
    pairs, named = SETTINGS[case]
    found = "; ".join(problems(list(pairs.items())))
    assert (named in found, bool(found)) == (True, bool(named)), found
    assert "secret" not in found


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("six==1.16.0\n# --trusted-host a\n", False),
        ("-i https://a.example\n", False),
        ("--trusted-host a.example\n", True),
        ("--index-url \\\n  http://a.example\n", True),
        ("six @ http://a.example/six.whl\n", True),
        ("-c more.txt\n", True),
        ('-i "http://h/s"\n', True),
        ("-i 'http://h/s'\n", True),
        ("-ihttp://h/s\n", True),
        ("-i https://h/s -f http://h\n", True),
        ("-i ${SCHEME}://h/s\n", True),
        ("--pypi-url=http://h/s\n", True),
        ("--trusted h\n", True),
        ("--trusted-hos h\n", True),
        ("--index=http://h\n", True),
        ("--no-binary :all:\n", True),
        ("-e /srv/x\n", True),
        ("foo @http\\\n://h/foo.whl\n", True),
        ("foo @ file:///tmp/none-here/foo.whl\n", True),
        ("/tmp/none-here/foo.whl\n", True),
        ("-f /tmp/none-here\n", True),
        ("-i 'https://h\n", True),
        ("# coding: utf-7\n+AC0-i https://h\n", True),
        ("\ufeff--trusted-host h\n", True),
        ("foo @ git+ssh://git@h/foo\n", False),
        ("foo[bar]>=1; python_version < '3.9'  # http://h\n", False),
        ("--prefer-binary --pre\nfoo==1 --hash=sha256:aa \\\n  --hash sha256:bb\n", False),
        ("--find-links folder\n-r less.txt\n", False),
    ],
)
def test_options_in_constraints(
    tmp_path: Path, text: str, is_named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip takes options from such files, and from those that they name."""
    monkeypatch.setenv("SCHEME", "http")
    (tmp_path / "folder").mkdir()
    (tmp_path / "less.txt").write_text("six==1.16.0\n")
    (tmp_path / "c.txt").write_text(text)
    (tmp_path / "more.txt").write_text("--trusted-host=b.example\n")
    found = list(problems([("global.constraint", str(tmp_path / "c.txt"))]))
    assert bool(found) is is_named, found


def test_a_file_of_constraints_that_is_no_text(tmp_path: Path) -> None:
    """pip reads it by its byte order mark: an option in it would not be seen here."""
    (tmp_path / "c.txt").write_bytes("--trusted-host h\n".encode("utf-16"))
    assert list(problems([("global.constraint", str(tmp_path / "c.txt"))]))


OTHER_UID = pwd.getpwnam("_apt").pw_uid
# What sh makes of an empty folder `w`, and who else may then change what pip finds there.
PLACES = {
    "root's": ("mkdir w/a; echo >w/a/x.whl; ln -s a/x.whl w/y; ln -s . w/a/z", ""),
    "everyone's": ("chmod 777 w", "everyone may write"),
    "a sticky one": ("chmod 1777 w", "everyone may write"),
    "in a sticky one": ("chmod 1777 w; mkdir w/in", "", "w/in"),
    "missing in a sticky one": ("chmod 1777 w", "is missing, and everyone may write", "w/in"),
    "a group's": ("chgrp 60123 w; chmod 775 w", "the group 60123 may write"),
    "root's group's": ("chmod 775 w", ""),
    "another account's": ("chown _apt w", f"uid {OTHER_UID} owns"),
    "another account's file": ("echo >w/x.whl; chown _apt w/x.whl", f"uid {OTHER_UID} owns"),
    "a file for everyone": ("mkdir w/a; echo >w/a/x.whl; chmod 666 w/a/x.whl", "everyone may"),
    "a link away": ("ln -s /tmp/none-here/x.whl w/x.whl", "/tmp/none-here is missing"),
    "a link of another's": ("ln -s / w/x.whl; chown -h _apt w/x.whl", f"uid {OTHER_UID} owns"),
    "behind a link": ("mkdir o; chown _apt o; ln -s o/in l", f"uid {OTHER_UID} owns", "l"),
    "above": ("mkdir w/in; chmod 777 w", "everyone may write", "w/in"),
    "a link to itself": ("ln -s l l", "too many links", "l"),
    "up from a link": ("mkdir w/a; ln -s w/a l; mkdir w/b; chmod 777 w/b", "everyone", "l/../b"),
    "a sticky one by a link": ("chmod 1777 w; ln -s w/. l", "everyone may write", "l"),
}


@pytest.mark.parametrize("case", PLACES)
def test_folders_of_this_machine(tmp_path: Path, case: str) -> None:
    """They count where no other account can change what pip takes from them."""
    script, reason, *place = PLACES[case]
    words = ["sh", "-c", f"umask 022; mkdir w; {script}"]
    subprocess.run(words, cwd=tmp_path, check=True)
    path = f"{tmp_path}/{(place or ['w'])[0]}"
    for value in (path, f"file://{path}", f"/srv {path}"):
        found = "; ".join(problems([("global.find-links", value)]))
        assert (reason in found, bool(found)) == (True, bool(reason)), found


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    """An environment whose pip finds one wheel, and an archive of sources, in a folder."""
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "none"))
    index = tmp_path / "index"
    index.mkdir()
    wheel(index, "six", "1.16.0", {"six/__init__.py": b"1"}, [])
    (index / "older-1.0.tar.gz").write_bytes(b"sources")
    return environments.bare(tmp_path / "env", index)


def install(made: Environment, pins: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the script that meets pins."""
    given = {"prefix": str(made.prefix), "pins": pins, "allow": "yes", **variables}
    words = ["dash", "-c", script("packages_pip", **given).get_raw_value()]
    clean = {key: text for key, text in environments.clean().items()}
    return subprocess.run(words, env=clean, capture_output=True, text=True, check=False)


def requirement(made: Environment, digest: str = "") -> str:
    """A line of requirements with the hash of the wheel, or another one."""
    (kept,) = (made.prefix.parent / "index").glob("six-*.whl")
    return f"six==1.16.0 --hash=sha256:{digest or hashlib.sha256(kept.read_bytes()).hexdigest()}"


def test_no_server_that_is_not_proved(made: Environment) -> None:
    """It is refused before pip asks it; the inventory may allow it."""
    config = made.prefix / "pip.conf"
    config.write_text(config.read_text() + "trusted-host = a.example\n")
    ended = install(made, "six==1.16.0")
    assert ended.returncode == 1
    assert "trusted-host = a.example" in ended.stderr and "nothing was changed" in ended.stderr
    assert "six" not in made.distributions
    assert install(made, "six==1.16.0", insecure="yes").returncode == 0
    assert made.distributions["six"] == "1.16.0"


@pytest.mark.pip
def test_a_start_file_that_prints(made: Environment) -> None:
    """Its lines are no settings; one that looks like one is named."""
    (made.packages / "noise.pth").write_text("import sys; print('noise', end='\\n\\n')\n")
    ended = install(made, "six==1.16.0")
    assert (ended.returncode, ended.stderr) == (0, "")
    (made.packages / "noise.pth").write_text("import sys; print('a=b')\n")
    ended = install(made, "six==1.16.0")
    assert ended.returncode == 1
    assert "its settings cannot be read: pip config list printed 'a=b', which is no" in ended.stderr


def test_the_hash_of_the_inventory_is_proof(made: Environment) -> None:
    """Another file of the same name is not installed, whatever the server."""
    config = made.prefix / "pip.conf"
    config.write_text(config.read_text() + "trusted-host = a.example\n")
    ended = install(made, "six==1.16.0", hashes=requirement(made, "0" * 64))
    assert (ended.returncode, "six" in made.distributions) == (1, False), ended.stderr
    ended = install(made, "six==1.16.0", hashes=requirement(made))
    assert (ended.returncode, ended.stderr) == (0, "")
    assert made.distributions["six"] == "1.16.0"


def test_sources_are_not_built(made: Environment) -> None:
    """They run what they like while pip builds them."""
    ended = install(made, "older==1.0")
    assert ended.returncode == 1
    assert "from versions: none" in ended.stderr


def test_the_controller_fetches_from_no_such_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pip is asked for its settings, too."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    controller._require_proof()
    monkeypatch.setenv("PIP_TRUSTED_HOST", "a.example")
    with pytest.raises(ValueError, match=r"trusted-host = a\.example; use https and"):
        controller._require_proof()


def test_the_controller_keeps_no_wheel_with_another_hash(tmp_path: Path) -> None:
    """What an earlier run has kept is judged as well."""
    kept = tmp_path / "six.whl"
    kept.write_bytes(b"wheel")
    right = hashlib.sha256(b"wheel").hexdigest()
    controller._require_hash(kept, "")
    controller._require_hash(kept, f"six==1 --hash=sha256:{'0' * 64} --hash=sha256:{right}")
    with pytest.raises(ValueError, match=f"the wheel has sha256 {right}"):
        controller._require_hash(kept, f"six==1 --hash=sha256:{'0' * 64}")
    assert not kept.exists()
