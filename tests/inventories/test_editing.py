"""Hosts and groups come and go, and no other byte of a cluster file changes, whatever its style."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpu_node.inventories.yaml.edit import (
    EditError,
    diff,
    with_group,
    with_host,
    without_host,
    write,
)
from tests import case_files
from tests.examples import examples
from tests.inventories.test_inventory_errors import BAD

HERE = Path(__file__).parent
LAB = (HERE.parents[1] / "inventories" / "lab.yml").read_text()
ENTRY = {"address": "192.0.2.6", "group": "v100"}

HOSTS = {
    "like a flow one": (
        "hosts:\n  a: {address: 192.0.2.1, group: g} # one\n# end\n",
        "hosts:\n  a: {address: 192.0.2.1, group: g} # one\n"
        "  new: {address: 192.0.2.6, group: v100}\n# end\n",
    ),
    "like a block one, in its columns": (
        "hosts:\n    a:\n      address: 192.0.2.1\n      group: g\ngroups: {g: }\n",
        "hosts:\n    a:\n      address: 192.0.2.1\n      group: g\n"
        "    new:\n      address: 192.0.2.6\n      group: v100\ngroups: {g: }\n",
    ),
    "like the last one where they differ": (
        "hosts:\n  a: {group: g}\n  b:\n    group: g\n",
        "hosts:\n  a: {group: g}\n  b:\n    group: g\n"
        "  new:\n    address: 192.0.2.6\n    group: v100\n",
    ),
    "whatever its quotes and blanks": (
        "hosts:\n  'a': { address: \"192.0.2.1\", group: g }\n",
        "hosts:\n  'a': { address: \"192.0.2.1\", group: g }\n"
        "  new: {address: 192.0.2.6, group: v100}\n",
    ),
    "over two lines": (
        "hosts:\n  a: {address: 192.0.2.1,\n      group: g}\n\n\nx: 1\n",
        "hosts:\n  a: {address: 192.0.2.1,\n      group: g}\n"
        "  new: {address: 192.0.2.6, group: v100}\n\n\nx: 1\n",
    ),
    "no newline at the end": (
        "hosts:\n  a: {group: g}",
        "hosts:\n  a: {group: g}\n  new: {address: 192.0.2.6, group: v100}",
    ),
    "carriage returns and a mark of the encoding": (
        "\ufeffhosts:\r\n  a: {group: g}\r\n",
        "\ufeffhosts:\r\n  a: {group: g}\r\n  new: {address: 192.0.2.6, group: v100}\r\n",
    ),
    "carriage returns and no newline at the end": (
        "hosts:\r\n  a: {group: g}",
        "hosts:\r\n  a: {group: g}\r\n  new: {address: 192.0.2.6, group: v100}",
    ),
    "behind comments inside of the last one, before those beside it": (
        "hosts:\n  a:\n    group: g\n\n    # in a\n  # beside\n\n    # deep\n",
        "hosts:\n  a:\n    group: g\n\n    # in a\n"
        "  new:\n    address: 192.0.2.6\n    group: v100\n  # beside\n\n    # deep\n",
    ),
    "behind a block of text": (
        "hosts:\n  a:\n    env: |\n      x\n       # text\n\n  # b\n",
        "hosts:\n  a:\n    env: |\n      x\n       # text\n\n"
        "  new:\n    address: 192.0.2.6\n    group: v100\n  # b\n",
    ),
    "behind anchors, which nothing refers to": (
        "hosts: &h\n  &k a: &a {address: 192.0.2.1, group: &g g}\n  b:\n    group: &x g\n",
        "hosts: &h\n  &k a: &a {address: 192.0.2.1, group: &g g}\n  b:\n    group: &x g\n"
        "  new:\n    address: 192.0.2.6\n    group: v100\n",
    ),
    "behind an anchor of the last one": (
        "x: &x {y: 1}\nhosts:\n  a: &a {group: &g g}\n",
        "x: &x {y: 1}\nhosts:\n  a: &a {group: &g g}\n  new: {address: 192.0.2.6, group: v100}\n",
    ),
    "between marks of a document": (
        "---\nhosts:\n  a: {group: ü}\n...\n",
        "---\nhosts:\n  a: {group: ü}\n  new: {address: 192.0.2.6, group: v100}\n...\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), HOSTS.values(), ids=HOSTS)
def test_a_host_comes_and_goes(before: str, after: str) -> None:
    assert with_host(before, "new", ENTRY) == after
    assert without_host(after, "new") == before


def test_the_lab() -> None:
    """The file that the README uses, with an entry that has mappings inside."""
    entry = {**ENTRY, "ssh": {"user": "zhang", "port": 2222, "sudo": True}, "network": "eno1"}
    line = (
        "  v100-02: {address: 192.0.2.6, group: v100, "
        "ssh: {user: zhang, port: 2222, sudo: true}, network: eno1}\n"
    )
    assert with_host(LAB, "v100-02", entry) == LAB + line
    assert without_host(LAB + line, "v100-02") == LAB


def test_mappings_inside_a_block() -> None:
    """They are in braces, whatever the neighbour's are."""
    entry = {"ssh": {"user": "zhang"}, "network": "eno1"}
    for before in ("hosts:\n a:\n   gpu:\n     count: 2\n", "hosts:\n a:\n   gpu: {}\n"):
        assert with_host(before, "b", entry) == (
            f"{before} b:\n   ssh: {{user: zhang}}\n   network: eno1\n"
        )


FIRST = {
    "an empty section": ("hosts:\n", "hosts:\nNEW"),
    "none, and the file ends there": ("hosts:", "hosts:\nNEW"),
    "none yet, with a comment": (
        "cluster: c\nhosts: # none yet\n  # a: {}\n\nx: 1\n",
        "cluster: c\nhosts: # none yet\n  # a: {}\nNEW\n\nx: 1\n",
    ),
    "braces": ("hosts: {}\ngroups: {g: }\n", "hosts:\nNEW\ngroups: {g: }\n"),
    "braces, and the file ends there": ("hosts: {}", "hosts:\nNEW"),
    "braces with a blank, and a comment": ("hosts: { } # none\n", "hosts: # none\nNEW\n"),
    "braces on a line of their own": ("hosts: # h\n  {}\n", "hosts: # h\nNEW\n"),
    "carriage returns": ("hosts: {}\r\nx: 1\r\n", "hosts:\nNEW\nx: 1\n"),
}


@pytest.mark.parametrize(("before", "after"), FIRST.values(), ids=FIRST)
def test_the_first_host(before: str, after: str) -> None:
    """It comes on lines of its own, as those after it will."""
    end = "\r\n" if "\r" in before else "\n"
    new = "  new:\n    address: 192.0.2.6\n    group: v100"
    wanted = after.replace("NEW", new).replace("\n", end)
    assert with_host(before, "new", ENTRY).removesuffix(end) == wanted.removesuffix(end)


@pytest.mark.parametrize("groups", ["groups: {}\n", "groups:\n", ""])
def test_the_first_group_of_a_new_file(groups: str) -> None:
    """Before the first host, which then is written below."""
    text = with_group(f"cluster: c\n{groups}hosts: {{}}\n", "new", GROUP)
    assert text == "cluster: c\ngroups:\n  new:\n    gpu: {model: H100, count: 8}\nhosts: {}\n"
    assert with_host(text, "a", ENTRY) == (
        f"{text.removesuffix(' {}' + chr(10))}\n  a:\n    address: 192.0.2.6\n    group: v100\n"
    )


WORDS = ["no", "on", "y", "~", "null", "010", "0x1f", "1e5", "1_0", "1.5", "1:30", "2026-01-02"]


@pytest.mark.parametrize("word", WORDS)
def test_words_that_yaml_takes_for_something_else(word: str) -> None:
    """They are read as the text they are, as name and as value, in every style."""
    for before in ("hosts:\n  a: {group: g}\n", "hosts:\n  a:\n    group: g\n"):
        text = with_host(before, word, {"group": word})
        assert yaml.safe_load(text)["hosts"][word] == {"group": word}
        assert without_host(text, word) == before


@pytest.mark.parametrize("address", ["fe80::", "fe80::1%eno1", "::1", "2001:db8::5"])
def test_addresses_with_colons(address: str) -> None:
    for before in ("hosts:\n  a: {group: g}\n", "hosts:\n  a:\n    group: g\n"):
        text = with_host(before, "b", {"address": address})
        assert yaml.safe_load(text)["hosts"]["b"] == {"address": address}


GROUP = {"gpu": {"model": "H100", "count": 8}}
GROUPS = {
    "behind the last one": (
        "groups:\n  g:\n    gpu: {model: A100} # x\n\nhosts:\n  a: {group: g}\n",
        "groups:\n  g:\n    gpu: {model: A100} # x\n  new:\n    gpu: {model: H100, count: 8}\n\n"
        "hosts:\n  a: {group: g}\n",
    ),
    "behind one without keys": (
        "groups:\n  g: # nothing yet\nhosts:\n  a: {group: g}\n",
        "groups:\n  g: # nothing yet\n  new:\n    gpu: {model: H100, count: 8}\n"
        "hosts:\n  a: {group: g}\n",
    ),
    "the first, under its name": (
        "groups: # none yet\n  # g:\nhosts:\n    a: {group: g}\n",
        "groups: # none yet\n  # g:\n    new:\n        gpu: {model: H100, count: 8}\n"
        "hosts:\n    a: {group: g}\n",
    ),
    "the first, before the hosts and the comments above them": (
        "cluster: c\n\n# Who.\nhosts:\n    a: {group: g}\n",
        "cluster: c\n\ngroups:\n    new:\n        gpu: {model: H100, count: 8}\n\n"
        "# Who.\nhosts:\n    a: {group: g}\n",
    ),
    "at the top of a file": (
        "\ufeffhosts:\r\n  a: {group: g}\r\n",
        "\ufeffgroups:\r\n  new:\r\n    gpu: {model: H100, count: 8}\r\n"
        "hosts:\r\n  a: {group: g}\r\n",
    ),
}


@pytest.mark.parametrize(("before", "after"), GROUPS.values(), ids=GROUPS)
def test_a_group_comes(before: str, after: str) -> None:
    assert with_group(before, "new", GROUP) == after


def test_comments_above_a_host_stay() -> None:
    """They may be about those that follow."""
    text = (
        "hosts:\n  # V100\n  a: {group: g}\n\n  # old\n  b:\n    # in b\n    group: g\n    # in b\n"
    )
    assert without_host(text, "a") == text.replace("  a: {group: g}\n", "")
    assert without_host(text, "b") == "hosts:\n  # V100\n  a: {group: g}\n\n  # old\n"


BRACES = {
    "one in braces": ("hosts: {a: {group: g}}\n", "hosts"),
    "all in braces": ("{hosts: {a: {group: g}}}\n", "the whole file"),
    "anchored braces": ("hosts: &h {}\n", "hosts"),
}


@pytest.mark.parametrize(("text", "what"), BRACES.values(), ids=BRACES)
def test_braces_take_no_line(text: str, what: str) -> None:
    """Lines to add manually would not fit below them."""
    with pytest.raises(EditError) as error:
        with_host(text, "new", ENTRY)
    assert str(error.value) == (
        f"line 1: found {what} in one {{...}}; next: write it as a block, each entry on a separate "
        "line, and run this again"
    )


REFUSED = {
    "aliases": (
        "x: 1\nhosts:\n  a: &a {group: g}\n  b: *a\n",
        "line 4: found the alias *a; next: add manually",
    ),
    "an anchor twice": (
        "hosts:\n  a: &a {}\n  b: &a {}\n",
        "line 3: found text that is not YAML (",
    ),
    "an anchor on nothing": ("hosts:\n  a: &a\n", "line 2: found another value on the same line"),
    "merged": (
        "hosts:\n  a:\n    <<: {x: 1}\n    group: g\n",
        "line 3: found a merged mapping (<<)",
    ),
    "two documents": (
        "hosts:\n  a: {group: g}\n---\nx: 1\n",
        "line 3: found text that is not YAML (",
    ),
    "tabs": ("hosts:\n\ta: {group: g}\n", "line 2: found text that is not YAML ("),
    "a block of text": (
        "hosts:\n  # c\n|  # d\n  a: {group: g}\n",
        "line 1: found hosts without a mapping of names; ",
    ),
    "no mapping": ("- a\n", "line 1: found no mapping; "),
    "hosts that are none": ("hosts: [a]\n", "line 1: found hosts without a mapping of names; "),
    "no hosts": ("cluster: c\n", "found no hosts; "),
    "nothing": ("", "line 1: found no mapping; "),
}


@pytest.mark.parametrize(("text", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_edited(text: str, why: str) -> None:
    """The error names the line and the reason, with the lines to add manually."""
    with pytest.raises(EditError) as error:
        with_host(text, "new", ENTRY)
    assert str(error.value).startswith(why)
    manual_fix = "add manually, under hosts: new: {address: 192.0.2.6, group: v100}"
    assert str(error.value).endswith(manual_fix)


def test_an_explicit_key_is_not_taken_out() -> None:
    text = "hosts:\n  ? a\n  : {group: g}\n  b: {group: g}\n"
    with pytest.raises(EditError, match=r"^line 2: found .*; next: remove a from hosts manually$"):
        without_host(text, "a")


def test_a_host_that_is_there_and_one_that_is_not() -> None:
    with pytest.raises(
        EditError, match=r"^hosts: found 'v100-01' \(there already\); allowed: another name$"
    ):
        with_host(LAB, "v100-01", ENTRY)
    with pytest.raises(EditError) as error:
        without_host(LAB, "v100-1")
    assert str(error.value) == (
        "hosts: found 'v100-1' (not under hosts, did you mean v100-01?); allowed: a100-01, v100-01"
    )


def test_the_last_host_stays() -> None:
    with pytest.raises(
        EditError, match=r"^hosts: found 'a' \(the last host: a cluster needs one\)"
    ):
        without_host("hosts:\n  a: {group: g}\n", "a")


def test_whatever_a_file_holds() -> None:
    """It is edited and can be edited back, or the error gives the reason."""
    edited = 0
    for bad in BAD:
        try:
            assert without_host(with_host(bad.text, "new", ENTRY), "new") == bad.text, bad
            edited += 1
        except EditError as error:
            assert str(error), bad
    assert 0 < edited < len(BAD)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(place=st.integers(0, len(LAB)), cut=st.integers(0, 40), put=st.text(max_size=4))
def test_any_slip_of_the_hand(place: int, cut: int, put: str) -> None:
    """As above, whatever a person, or an editor, did to the file."""
    text = LAB[:place] + put + LAB[place + cut :]
    try:
        assert without_host(with_host(text, "new", ENTRY), "new") == text
        with_group(text, "new", GROUP)
    except (EditError, UnicodeDecodeError) as error:
        assert str(error)


def test_an_edit_that_would_change_more_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text is read again by the parser that cluster files are read with."""
    for rows in (["  new: {address: 192.0.2.7}"], ["  new: {}", "  more: {}"], ["new: {}"]):
        monkeypatch.setattr("gpu_node.inventories.yaml.edit._lines", lambda *_, rows=rows: rows)
        with pytest.raises(EditError, match="edit would change more than this entry"):
            with_host(LAB, "new", ENTRY)


COMMENT = st.sampled_from(["", " # note", "   # {brace: ü"])
BETWEEN = st.sampled_from(["", "", "\n", "  # same column\n", "      # deeper\n", "# first\n\n"])
NAMES = st.lists(
    st.sampled_from(["a100-01", "b.example", "no", "010", "1e5", "v", "v-2", "'q'", '"dq"']),
    min_size=1,
    max_size=4,
    unique=True,
)


@st.composite
def hosts(draw: st.DrawFn) -> str:
    """A `hosts` section in any mixture of styles."""
    column, step = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    rows = [f"hosts:{draw(COMMENT)}\n"]
    for name in draw(NAMES):
        rows += [draw(BETWEEN), f"{' ' * column}{name}:"]
        inside = f"\n{' ' * (column + step)}"
        rows += draw(
            st.sampled_from(
                [
                    [" {address: 192.0.2.1, group: g}"],
                    [" { address: '192.0.2.1',\n        group: g}"],
                    [f" # head{inside}address: 192.0.2.1{inside}group: g"],
                    [f"{inside}group: g{inside}ssh:{inside} user: root{inside} port: 22"],
                    [f"{inside}env: >-{inside} folded{inside} text"],
                    [""],
                ]
            )
        )
        rows += [draw(COMMENT) if rows[-1][-4:] != "text" else "", "\n"]
    return "".join([*rows, draw(BETWEEN)])


@st.composite
def files(draw: st.DrawFn) -> str:
    """A file with a `hosts` section somewhere."""
    others = ["# head\ncluster: c\n", "groups:\n  g: {gpu: {count: 2}}\n\n", "x: [1, ~, 1.5]\n"]
    rest = draw(st.lists(st.sampled_from(others), unique=True))
    place = draw(st.integers(0, len(rest)))
    text = "".join([*rest[:place], draw(hosts()), *rest[place:]])
    text = text.rstrip("\n") if draw(st.booleans()) else text
    text = text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))
    return draw(st.sampled_from(["", "\ufeff"])) + text


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(text=files(), name=st.sampled_from(["new", "yes", "1.5"]), has_more=st.booleans())
def test_any_style(text: str, name: str, has_more: bool) -> None:
    """A host that came is read as what it is, the others as before, and it goes without a trace."""
    entry = {**ENTRY, **({"ssh": {"user": "no", "port": 22}} if has_more else {})}
    before = case_files.load(text)["hosts"]
    after = with_host(text, name, entry)
    assert case_files.load(after)["hosts"] == {**before, name: entry}
    assert list(case_files.load(after)["hosts"]) == [*before, name]
    assert without_host(after, name) == text
    grown = with_group(after, name, GROUP)
    assert case_files.load(grown)["groups"][name] == GROUP
    assert without_host(grown, name) == with_group(text, name, GROUP)
    for other in before:
        left = (
            case_files.load(without_host(after, other))["hosts"] if isinstance(other, str) else {}
        )
        assert other not in left


def test_a_diff_is_one_that_patch_takes(tmp_path: Path) -> None:
    """With three lines around it, and a last line without an end."""
    old = LAB.removesuffix("\n")
    new = with_host(old, "v100-02", ENTRY)
    shown = diff(old, new, "lab.yml")
    assert shown.splitlines()[:2] == ["--- lab.yml", "+++ lab.yml"]
    assert (
        "\n+  v100-02: {address: 192.0.2.6, group: v100}\n\\ No newline at end of file\n" in shown
    )
    assert diff(old, old, "lab.yml") == ""
    file = tmp_path / "lab.yml"
    file.write_text(old)
    # git apply reads a diff as patch does, and is there.
    command = ["git", "apply", "-p0", "-"]
    subprocess.run(command, cwd=tmp_path, input=shown, text=True, check=True, timeout=60)
    assert file.read_text() == new


def test_writing(tmp_path: Path) -> None:
    """Behind its link, with its mode and its line ends; nothing is left beside it."""
    real = tmp_path / "real.yml"
    real.write_bytes("\ufeffhosts:\r\n  ü: {}\r\n".encode())
    real.chmod(0o640)
    link = tmp_path / "link.yml"
    link.symlink_to("real.yml")
    old = link.read_bytes().decode()
    write(link, old, with_host(old, "new", {}))
    assert real.read_bytes() == "\ufeffhosts:\r\n  ü: {}\r\n  new: {}\r\n".encode()
    assert real.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.yml", "real.yml"]


def test_a_file_that_has_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "c.yml"
    file.write_text("theirs\n")
    with pytest.raises(
        EditError, match=r"c\.yml: found a change in the meantime \(nothing was written"
    ):
        write(file, "ours\n", "new\n")
    assert file.read_text() == "theirs\n"


def test_a_file_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk leaves the old file, and nothing beside it."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    file = tmp_path / "c.yml"
    file.write_text("old\n")
    with pytest.raises(
        EditError, match=r"no space left on device \(cannot be written; it is unchanged"
    ):
        write(file, "old\n", "new\n")
    assert file.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [file]


def test_a_file_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(EditError, match=r"found no such file or directory \(cannot be written"):
        write(tmp_path / "none.yml", "", "x")
