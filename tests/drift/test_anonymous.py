"""A report without names: no format shows one, and a name is the same word in all reports."""

from __future__ import annotations

import io
import re
from html import unescape
from typing import Any

import pytest
from rich.console import Console

from gpu_node.drift.engine.finding import OffFinding
from gpu_node.drift.report.anonymous import Anonymity
from gpu_node.drift.report.changes import ChangedFact, Changes, Earlier
from gpu_node.drift.report.formats import FORMATS, Page, parts
from gpu_node.drift.report.matrix import labels_and_columns
from gpu_node.drift.report.model import Report
from gpu_node.drift.report.seen import Seen
from gpu_node.drift.report.view import View
from gpu_node.facts.probe.peers import Peer
from tests.case_files import load
from tests.drift import reports, states
from tests.drift.format_readers import READERS
from tests.drift.states import HERE

KEY = bytes(32)
PREFIX = "/root/miniconda3/envs"
BELOW = "/lib/python3.10/site-packages/nvidia/nccl/lib/libnccl.so.2"
NODE = "a100-secretia"
PLANTED: dict[str, dict[str, Any]] = load((HERE / "planted.yml").read_text())
PEERS = tuple(Peer(name=name, address="10.20.30.40") for name in (NODE, "gpu-01", "gpu-02"))


def seen(words: str) -> dict[str, Seen]:
    """Return a node that was read, by a training user, and one whose error has the words."""
    wanted = states.wanted({"launcher_user": "train"})
    read = states.state({**reports.FRESH, "toolchain": {"os": words}})
    return {NODE: Seen(wanted, read, nodes=PEERS), "v100-secretia": Seen(wanted, error=words)}


def planted(words: str) -> Report:
    """Return a report with the words in each text that a node or a user can choose."""
    report = reports.report(seen(words))
    host = report.hosts[NODE]
    each = {"subject": words, "found": words, "wanted": words, "cause": words, "fix": words}
    findings = [finding.model_copy(update=each) for finding in host.findings]
    off = OffFinding(**dict(findings[0]), entry="shm", until=report.day, reason=words)
    hosts = report.hosts | {NODE: host.model_copy(update={"findings": findings, "off": [off]})}
    gone = Earlier(
        node=NODE, rule="shm.too-small", subject=words, severity="error", found=words, wanted=words
    )
    fact = ChangedFact(node=NODE, fact="shm.size", before=words, now="8G")
    changes = Changes(since=words, earlier=report.generated, gone=[gone], facts=[fact])
    return report.model_copy(update={"inventory": words, "hosts": hosts, "changes": changes})


def anonymous(report: Report, words: str, key: bytes = KEY) -> Report:
    made: Report = Anonymity(key, report, seen(words)).of(report)
    return made


def written(form: str, report: Report) -> str:
    """Return all that a format shows: the table with and without its findings, and its facts."""
    console = Console(file=io.StringIO(), width=40_000)
    shown = [(View(report), Page(console, facts=True))]
    if form == "table":
        shown.append((View(report), Page(console, full=True)))
        shown.append((View(report, only=[next(iter(report.hosts))]), Page(console)))
    return "".join(text for view, page in shown for text in parts(form, view, page))


def read(form: str, report: Report) -> str:
    """Return the same as a person reads it, in small letters."""
    return unescape(re.sub("</?bdi>", "", written(form, report))).lower()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", PLANTED)
def test_no_format_shows_a_name(kind: str, form: str) -> None:
    """A report that hides none shows them all."""
    words, gone = PLANTED[kind]["says"], PLANTED[kind]["gone"]
    report = planted(words)
    plain = read(form, report)
    assert form == "prometheus" or [each for each in gone if each.lower() not in plain] == []
    shown = read(form, anonymous(report, words))
    assert [each for each in (*gone, "secretia") if each.lower() in shown] == []


@pytest.mark.parametrize("form", FORMATS)
def test_it_has_all_problems(form: str) -> None:
    report = planted("x")
    assert READERS[form](written(form, anonymous(report, "x"))) == READERS[form](
        written(form, report)
    )


def test_no_fact_has_a_name() -> None:
    """Whatever its field: a word that a node made up is in the texts and the keys of none."""
    hidden = Anonymity(KEY, planted("x"), {})

    def odd(value: Any) -> Any:
        if isinstance(value, str):
            return f"{value} maxmuster"
        if isinstance(value, dict):
            return {f"{each}/maxmuster": odd(inner) for each, inner in value.items()}
        return [odd(each) for each in value] if isinstance(value, list) else value

    facts = odd(states.state(states.meshed(reports.FRESH)).model_dump(mode="json"))
    assert str(facts).count("maxmuster") > 500
    assert "maxmuster" not in str(hidden.of(facts))


def test_a_healthy_node_stays_readable() -> None:
    """Versions, sizes, GPUs and the system are no names."""
    report = reports.report({NODE: states.seen()})
    plain, hidden = (
        [column.cells for column in labels_and_columns(each.hosts)[1]]
        for each in (report, anonymous(report, "x"))
    )
    apart = [was.plain for was, now in zip(*plain, *hidden, strict=True) if was.plain != now.plain]
    assert len(apart) == 1 and apart[0].startswith("eno1 "), apart


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("535.154.05-0ubuntu1 5.15.0-91-generic", None),
        ("3.10.0-1160.el7.x86_64, Ubuntu 22.04.3 LTS", None),
        ("2.1.0+cu121, NVIDIA A100-SXM4-80GB, 80GB, 2026-11-24 09:12:33", None),
        ("0000:17:00.0 on enp65s0f0np0, mlx5_0; 127.0.0.1, ::1, 0.0.0.0", None),
        ("mount -o remount,nosuid,nodev,size=8G /dev/shm", None),
        ("/etc/security/limits.d/99-gpu-node.conf:3, ~/.bashrc", None),
        ("/usr/lib/x86_64-linux-gnu/libnccl.so.2, /usr/local/bin/cmake, /dev/shm", None),
        ("/usr/local/cuda-12.1/bin/nvcc, /proc/4041/fd, /boot/vmlinuz-5.15.0-91-generic", None),
        ("/var/lib/dkms/nvidia/535.154.05/build/make.log", None),
        ("run gpu-node deploy cluster/site.yml", None),
        (f"{PREFIX}/geheim{BELOW}", f"{PREFIX}/name-ee33e5f4e1{BELOW}"),
        ("[1-999999999999] acme-[1-3]", "[1-999999999999] name-6c34f7b7a6[1-3]"),
        (f"[{5000 * '9'}-{5000 * '9'}]", None),
        ("Debian GNU/Linux 12 (bookworm), Ubuntu 24.04.1 LTS (noble)", None),
        ("~/.ssh/config, ~/.ssh/authorized_keys, ~/.ssh/id_ed25519.pub", None),
        ("6.18.44-fc-v657", "6.18.44-name-0ce19ad493"),
        ("~/.ssh/geheim, /srv/config", "~/.ssh/name-ee33e5f4e1, /srv/name-f0b66139f0"),
        ("16GiB, 100Gbps, 200Gb, 7.4.0-1ubuntu1, enp65s0f0np0, eno1, ibp12s0, nvme0n1p2", None),
    ],
)
def test_what_is_no_name(text: str, shown: str | None) -> None:
    """It stays: a colleague reads it."""
    assert Anonymity(KEY, planted("x"), {}).of(text) == (text if shown is None else shown)


def test_an_address_is_no_version() -> None:
    """Four numbers are a version where a node has a package of it, and no node that address."""
    packages = {"nccl": {"environments": {"/opt/a": {"packages": {"torch": "12.1.3.1"}}}}}
    report = reports.report({NODE: states.seen(packages)})
    shown = Anonymity(KEY, report, {}).of("torch 12.1.3.1, 12.1.3.2")
    assert shown.startswith("torch 12.1.3.1, address-")


def test_a_name_is_the_same_word_in_all_reports() -> None:
    """With one key: with another it is another word, and two names are two words."""
    one, two = planted("refused by node7"), planted("a job on node7, not node8")
    made = [anonymous(each, "x") for each in (one, two)]
    first, second = (next(iter(each.hosts.values())).findings[0].found for each in made)
    assert first.split()[-1] == second.split()[3].strip(",") != second.split()[-1]
    assert made[0].hosts.keys() == made[1].hosts.keys()
    assert made[0].hosts.keys() != anonymous(one, "x", b"another" * 5).hosts.keys()


def test_a_word_of_only() -> None:
    """Rules and areas stay; a node is the word that the report has for it."""
    report = planted("x")
    hidden = Anonymity(KEY, report, {})
    words = [hidden.word(each) for each in ("shm", "shm.too-small", "needs-root", NODE)]
    assert words == ["shm", "shm.too-small", "needs-root", next(iter(hidden.of(report).hosts))]


@pytest.mark.parametrize("user", ["ssh", "shm", "key", "gpu", "error", "deploy"])
def test_a_user_is_called_as_a_part_of_the_report(user: str) -> None:
    """Ids of rules, severities and keys stay."""
    named = {"limits": {"user": {"name": user}}}
    report = reports.report({NODE: states.seen({**reports.FRESH, **named})})
    made = Anonymity(KEY, report, {}).of(report)
    for form in FORMATS:
        assert READERS[form](written(form, made)) == READERS[form](written(form, report)) > 0
