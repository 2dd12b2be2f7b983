"""Names that an inventory or a job gives the probe: no part of one runs or is an option."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from tempfile import mkdtemp

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from gpu_node.facts.node import sections
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.protocol import Section
from gpu_node.facts.probe.request import Copied, JobAsked, Joining, OwnCheck, ProbeRequest
from tests import shells

# RAN is a file that no command of ours makes.
WORDS = (
    *("-x", "--help", "-e1e touch RAN #", "-oProxyCommand=touch${IFS}RAN", "--checkpoint-action=x"),
    *(
        "$(touch RAN)",
        "`touch RAN`",
        "';touch RAN;'",
        '";touch RAN;"',
        ";touch RAN;",
        "&touch RAN&",
    ),
    *("a|touch RAN", "x>RAN", "*", "[a-z]*", "{a,b}", "?", "~", "~root", "a b", "a\\", "$HOME"),
    *("${x:=RAN}", "%s%n", "#x", "!x", "=x", "@names@", "\\$(touch RAN)", "'", '"', "END"),
    *(
        "/x\n-e1e touch RAN #.json",
        "x\ntouch RAN\n",
        "\n",
        "a\tb",
        "END\ntouch RAN",
        "\x01",
        "\x07x",
    ),
)
JOB_WORDS = ("-x", "-e1e touch RAN #", "$(touch RAN)", "*", "a b'", "/x\n-e1e touch RAN #.json")
ANY_WORD = st.lists(
    st.sampled_from([*WORDS, "\n", " ", "\t", "-", ".json", "RAN"]), min_size=1, max_size=4
).map("".join)


def request(words: Sequence[str], good: str, user: str = "") -> ProbeRequest:
    """Return a request that has the words wherever the inventory or a job names something."""
    # Each name asked about is a wait for a resolver.
    nodes = [Peer(name="localhost", address="127.0.0.1"), *filter(None, map(peer, words[:3]))]
    copied = tuple(Copied(each, each, each, (each,)) for each in words)
    return ProbeRequest(
        environments=[*words, good],
        nodes=nodes,
        user=user,
        address=words[0],
        mesh=True,
        variables=[*words, "NCCL_DEBUG"],
        directories=[*words, good],
        below=[*((each, "755") for each in words), (good, "755")],
        workspace=copied[0],
        workspaces=(*copied[1:], Copied(good, good, good)),
        packages=[*words, "bash"],
        joining=Joining(
            server=nodes[-1],
            scanned=tuple(nodes[1:]),
            pinned={each.name: (each.address,) for each in nodes},
            folders=(*words, good),
        ),
        job=job(words, good, folder=words[0]),
        # The model of an inventory takes no other names; the command is sh as it is.
        own_checks=[OwnCheck("name", shlex.join(["echo", *words]))],
        sysctl=[*words, "vm.swappiness"],
        modules=[*words, "loop"],
        services=[*words, "ssh"],
    )


def job(words: Sequence[str], good: str, folder: str) -> JobAsked:
    """Return a job of the words, also of those that no job may have: scripts are a second guard."""
    job = JobAsked()
    of_words = {
        "folder": folder,
        "hostfile": f"{good}/hostfile",
        "files": (*words, *(f"{each}.json" for each in words), f"{good}/ds.json"),
        "paths": (*words, good),
        "programs": (*words, f"{good}/run"),
        "names": (*words, "localhost"),
    }
    for field, value in of_words.items():
        object.__setattr__(job, field, value)
    return job


def peer(word: str) -> Peer | None:
    """Return a node of this name, if the model of nodes takes it."""
    try:
        return Peer(name=word, address=word)
    except ValidationError:
        return None


def asked(words: Sequence[str], good: str, user: str = "") -> list[list[Section]]:
    """Return what is asked of a server that is to become a node, and of a node."""
    newcomer = request(words, good, user)
    # What a job names below a folder is found only if there is one.
    node = replace(newcomer, joining=None, job=job(words, good, folder=good))
    return [list(sections(newcomer)), list(sections(node))]


def taking(words: Sequence[str], good: str, user: str = "", only: str = "") -> list[list[Section]]:
    """Return the sections that such a name is in."""
    plain = asked([f"plain{number}" for number in range(len(words))], "/plain")
    return [
        [each for each in some if each not in others and each.name.startswith(only)]
        for some, others in zip(asked(words, good, user), plain, strict=True)
    ]


def good_folder(folder: Path, words: Sequence[str]) -> str:
    """Make a folder with files of a job, in which a user lists some names."""
    good = folder / "good"
    good.mkdir()
    (good / "hostfile").write_text("".join(f"{each} slots=1\n" for each in words))
    (good / "run").write_text(f"#!{words[0]}\n")
    (good / "run").chmod(0o755)
    (good / "ds.json").write_text("".join(f'"nvme_path": "/x{each}",\n' for each in words))
    for path in (good, *good.parents[:3]):
        path.chmod(0o755)
    return str(good)


def about(good: str, asked: Sequence[Sequence[Section]], shell: str) -> dict[str, set[str]]:
    """Return the lines about the good name, by section; numbers change from second to second."""
    lines: dict[str, set[str]] = {}
    # All of them are more than one argument.
    parts = [some[start : start + 6] for some in asked for start in range(0, len(some), 6)]
    for part in parts:
        for name, reading in shells.ask(shell, part).sections.items():
            own = [each for each in reading.text.split("\n") if good in each]
            lines.setdefault(name, set()).update(re.sub(r"\d+", "0", each) for each in own)
    return lines


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a relative name lead to no file of ours."""
    monkeypatch.chdir(tmp_path)


def tried(words: Sequence[str], folder: Path, shell: str, only: str = "") -> None:
    """Ask about some words and a good name, and check what ran and what is read."""
    words = [each.replace("RAN", str(folder / "ran")) for each in words]
    good = good_folder(folder, words)
    before = sorted(folder.rglob("*"))
    found, plain = (
        about(good, taking(some, good, only=only), shell)
        for some in (words, [f"no{number}" for number in range(len(words))])
    )
    assert sorted(folder.rglob("*")) == before
    shared = found.keys() & plain.keys()
    assert {"job.paths", "job.files", "job.programs"} <= shared
    assert {name: found[name] for name in shared} == {name: plain[name] for name in shared}


@pytest.mark.parametrize("shell", shells.SH)
@pytest.mark.parametrize("word", JOB_WORDS)
def test_a_name_of_a_job_is_a_word(shell: str, word: str, tmp_path: Path) -> None:
    """And the good one beside it is read as it is beside one that does not exist."""
    tried([word], tmp_path, shell, only="job.")


@pytest.mark.slow
@pytest.mark.parametrize("shell", shells.SH)
@pytest.mark.parametrize("start", range(4))
def test_a_name_of_an_inventory_is_a_word(shell: str, start: int, tmp_path: Path) -> None:
    """In each section that has one."""
    tried(WORDS[start::4], tmp_path, shell)


@pytest.mark.slow
@pytest.mark.parametrize("shell", shells.SH)
@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(ANY_WORD, min_size=1, max_size=4))
def test_any_name_is_a_word(shell: str, words: list[str], tmp_path: Path) -> None:
    """Whatever it consists of."""
    tried(words, Path(mkdtemp(dir=tmp_path)), shell)


@pytest.mark.slow
@pytest.mark.parametrize("word", WORDS[::3])
@pytest.mark.parametrize("shell", shells.SH)
def test_the_name_of_a_user_is_a_word(shell: str, word: str, tmp_path: Path) -> None:
    """No such user has a start file, a shell or a home."""
    ran = tmp_path / "ran"
    about("/nowhere", taking(["plain0"], "/plain", user=word.replace("RAN", str(ran))), shell)
    assert [*tmp_path.iterdir()] == []


def test_every_name_of_a_request_is_tried() -> None:
    """A field that is new has its hostile word above; these are numbers and switches."""
    tried = request(["-x"], "/good", user="-x")
    untried = {"asks", "deep", "port", "logins", "every_login", "sudo", "trains_apart"}
    assert {
        each.name for each in fields(tried) if getattr(tried, each.name) == each.default
    } == untried
    assert tried.joining is not None and tried.job is not None and tried.workspace is not None
    for part in (tried.job, tried.workspace):
        assert all(getattr(part, each.name) for each in fields(part))
