"""The section about package locks, run by each shell over the files of a test."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpu_node.facts.packages.locks import SECTION, Locks, name_and_version, parse
from tests.shells import ask


def read(root: Path, shell: str, **files: str) -> Locks:
    """What a shell finds where `files`, by their paths with __ for /, are all there is."""
    for name, text in files.items():
        path = root / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="latin-1")
    command = SECTION.command.replace("/etc/", f"{root}/etc/").replace("/var/", f"{root}/var/")
    readings = ask(shell, [replace(SECTION, command=command)])
    found = readings.take("nccl.locks", parse)
    assert found is not None, readings.unread
    return found


def test_dnf(tmp_path: Path, shell: str) -> None:
    """The list with its line numbers and comments, exclude= over two lines, our note."""
    found = read(
        tmp_path,
        shell,
        etc__dnf__plugins__versionlock_DOT_list="\n".join(
            [
                *("# Added lock on Mon Jan  5 10:00:00 2026", "bash-0:5.1-1.*", ""),
                *("# job 7 needs it, \xe9", "libnccl-0:2.19.3-1+cuda12.2.*"),
                "!libnccl-devel-0:2.18.1-1+cuda12.1.*",
                "",
            ]
        ),
        etc__dnf__dnf_DOT_conf="[main]\na=1\n#exclude=a\nexclude=bash\n  lib*\nb=1\n x\n",
        etc__yum_DOT_repos_DOT_d__cuda_DOT_repo="[cuda]\nname=x\nexcludepkgs = libnccl*, cuda*\n",
    )
    lines = [(each.file.rpartition("/")[2], each.line, each.text) for each in found.lines]
    assert lines == [
        ("versionlock.list", 5, "libnccl-0:2.19.3-1+cuda12.2.*"),
        ("versionlock.list", 6, "!libnccl-devel-0:2.18.1-1+cuda12.1.*"),
        ("dnf.conf", 4, "exclude=bash"),
        ("dnf.conf", 5, "exclude=lib*"),
        ("cuda.repo", 3, "exclude=libnccl*, cuda*"),
    ]
    locked, kept_out, _, main, repository = found.lines
    assert locked.comment == "job 7 needs it, ?"
    assert (locked.names, locked.version, kept_out.denies) == (
        ("libnccl",),
        "2.19.3-1+cuda12.2",
        True,
    )
    assert (main.scope, repository.scope, repository.names) == (
        "main",
        "cuda",
        ("libnccl*", "cuda*"),
    )
    assert (found.holds, found.has_repository) == ((), False)


def test_dnf5(tmp_path: Path, shell: str) -> None:
    """Its list has a form of its own, with the comment as a value."""
    toml = """version = "1.0"
[[packages]]
name = "libnccl"
comment = "job 7"
[[packages.conditions]]
key = "evr"
comparator = "="
value = "2.19.3-1+cuda12.2"
"""
    found = read(tmp_path, shell, etc__dnf__versionlock_DOT_toml=toml)
    (line,) = found.lines
    assert (line.names, line.version, line.line) == (("libnccl",), "2.19.3-1+cuda12.2", 8)
    assert line.comment == "job 7"


def test_yum(tmp_path: Path, shell: str) -> None:
    """The list that its configuration names; nothing where the plugin is off."""
    conf = f"[main]\nenabled = 1\nlocklist = {tmp_path}/etc/locks\n"
    files = {
        "etc__locks": "0:libnccl-2.19.3-1+cuda12.2.*\nother-1-1\n",
        "etc__yum__pluginconf_DOT_d__versionlock_DOT_conf": conf,
    }
    found = read(tmp_path, shell, **files)
    assert [(each.names, each.version, each.line) for each in found.lines] == [
        (("libnccl",), "2.19.3-1+cuda12.2", 1)
    ]
    files["etc__yum__pluginconf_DOT_d__versionlock_DOT_conf"] = conf.replace("= 1", "= 0")
    assert read(tmp_path, shell, **files).lines == ()


def test_apt(tmp_path: Path, shell: str) -> None:
    """Each pin of a file that apt reads; a file with another ending is passed over."""
    pins = """# of the cluster
Explanation: job 7 needs it
Package: libnccl2 libnccl-dev
Pin: version 2.19.*
Pin-Priority: 1001

Package: *
Pin: release l=NVIDIA CUDA
Pin-Priority: -1
"""
    found = read(
        tmp_path,
        shell,
        etc__apt__preferences_DOT_d__nccl_DOT_pref=pins,
        etc__apt__preferences_DOT_d__old_DOT_bak="Package: a\nPin: version 1\nPin-Priority: 1\n",
        etc__apt__preferences="Package: b\nPin: version 1\nPin-Priority: 1",
    )
    assert [(each.names, each.version, each.priority, each.line) for each in found.lines] == [
        (("b",), "version 1", 1, 1),
        (("libnccl2", "libnccl-dev"), "version 2.19.*", 1001, 3),
        (("*",), "release l=NVIDIA CUDA", -1, 7),
    ]
    assert found.lines[1].comment == "job 7 needs it"


def test_a_regular_expression_of_apts(tmp_path: Path, shell: str) -> None:
    """The node finds the packages that a pattern matches, and a bad pattern takes no time."""
    pin = "Package: {}\nPin: version 1\nPin-Priority: 1\n\n"
    patterns = ("/^libnccl2$/ zlib", "/nccl/", "/((((.+)+)+)+)+Q/")
    found = read(tmp_path, shell, etc__apt__preferences="".join(map(pin.format, patterns)))
    assert [each.names for each in found.lines] == [
        ("libnccl2", "zlib"),
        ("libnccl2", "libnccl-dev"),
        (),
    ]


def test_what_we_wrote(tmp_path: Path, shell: str) -> None:
    """Our note, and our repository's file."""
    note = tmp_path / "var" / "lib" / "gpu-node" / "holds"
    note.parent.mkdir(parents=True)
    note.write_text("libnccl 2.18.1-1+cuda12.1 20260101T000000Z-abc\ncut of\n")
    found = read(tmp_path, shell, etc__yum_DOT_repos_DOT_d__gpu_cuda_DOT_repo="[a]\n")
    assert [(each.package, each.version) for each in found.holds] == [
        ("libnccl", "2.18.1-1+cuda12.1")
    ]
    assert found.has_repository is False
    (tmp_path / "etc/yum.repos.d/gpu-node-cuda.repo").write_text("[gpu-node-cuda]\n")
    assert read(tmp_path, shell).has_repository is True


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("libnccl-0:2.18.1-1+cuda12.1.*", ("libnccl", "2.18.1-1+cuda12.1")),
        ("0:libnccl-devel-2.18.1-1+cuda12.1.*", ("libnccl-devel", "2.18.1-1+cuda12.1")),
        ("libnccl-2.18.1-1+cuda12.1", ("libnccl", "2.18.1-1+cuda12.1")),
        ("libnccl*", ("libnccl*", "")),
        ("libnccl-*", ("libnccl", "*")),
        ("libnccl-devel-2.19.3", ("libnccl-devel", "2.19.3")),
        ("libnccl-0:*", ("libnccl", "*")),
    ],
)
def test_a_lock_is_taken_apart(text: str, expected: tuple[str, str]) -> None:
    """yum's form, dnf's, one without an epoch, and a name alone."""
    assert name_and_version(text) == expected
