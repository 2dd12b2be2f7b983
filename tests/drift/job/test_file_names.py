"""Names in the line of a job: one that is more than a name is not judged, and runs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpu_node.drift.job.job import Given, job_of
from gpu_node.drift.job.launch import of_words
from gpu_node.drift.job.outline import lines
from gpu_node.drift.report.model import report_of
from gpu_node.facts.job.state import sections
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.request import JobAsked, ProbeRequest
from gpu_node.facts.probe.words import FILE_NAME
from tests import shells


@pytest.mark.parametrize("shell", shells.SH)
@pytest.mark.parametrize("option", ["--deepspeed_config", "--output_dir"])
@pytest.mark.parametrize("text", ["/etc/hostname\n-e1e touch RAN #.json", "/x\ty\n\n/z.json"])
def test_a_name_of_several_lines(shell: str, option: str, text: str, tmp_path: Path) -> None:
    """The `e` of GNU sed would run the rest of its line on each node."""
    ran = tmp_path / "ran"
    text = text.replace("RAN", str(ran))
    given = Given(of_words(["deepspeed", "train.py", option, text]), "/etc")
    shells.ask(shell, sections(ProbeRequest(job=given.asked())))
    assert not ran.exists()
    job = job_of(given, "a", {}, [Peer(name="a", address="192.0.2.1")])
    assert f"unknown, not judged: {option}" in [*lines(job, report_of("x", {}))]


@pytest.mark.parametrize("option", ["--hostfile", "--include"])
def test_an_option_of_several_lines(option: str) -> None:
    """It is named, too."""
    given = Given(of_words(["deepspeed", option, "a\nb", "train.py"]), "/etc")
    assert "a\nb" not in (*given.asked().files, *given.asked().names)
    job = job_of(given, "a", {}, [Peer(name="a", address="192.0.2.1")])
    (line,) = (each for each in lines(job, report_of("x", {})) if each.startswith("unknown"))
    assert line.startswith(f"unknown, not judged: {option}")


@pytest.mark.parametrize("text", ["a\nb", "a\tb", "a\0", "\x9b", "\udc80", "x" * 4096, "é" * 2048])
def test_what_is_no_name_is_not_sent(text: str) -> None:
    """Whatever asks for it."""
    several: dict[str, Any] = dict.fromkeys(("files", "paths", "programs"), ("/a", text))
    for name, value in {**several, "folder": text, "hostfile": text}.items():
        with pytest.raises(ValueError, match=f"not the name of a file: .*; allowed: {FILE_NAME}"):
            JobAsked(**{name: value})


@pytest.mark.parametrize("text", ["", "-x", "--help", "a b", "a\n", "*", "x" * 254])
def test_what_is_no_name_of_a_host_is_not_sent(text: str) -> None:
    """An option of getent is none."""
    with pytest.raises(ValueError, match="not the name of a host"):
        JobAsked(names=(text,))
