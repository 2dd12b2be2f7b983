"""The files that the how-to pages have a reader copy: units, alerts, a Slurm program, a CI file."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from gpu_node.drift.engine.registry import RULES
from gpu_node.drift.report.formats import Page, parts
from gpu_node.drift.report.view import View
from tests.docs.pages import DOCS, blocks, words
from tests.docs.test_command_lines import parse
from tests.drift import reports, states

EXAMPLES = DOCS / "examples"
UNITS = ("gpu-node-drift.service", "gpu-node-drift.timer")
HEALTH = EXAMPLES / "slurm_health.py"
NAMES = ("gpu-node-health", "gpu-node-health-check", "gpu-node-prolog")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
@pytest.mark.parametrize("drop_in", [False, True])
def test_systemd_accepts_the_units(drop_in: bool, tmp_path: Path) -> None:
    """With the page's change for Prometheus, too; gpu-node itself is not at that path here."""
    for unit in UNITS:
        text = (EXAMPLES / unit).read_text()
        (tmp_path / unit).write_text(text.replace("/opt/gpu-node/bin/gpu-node", "/bin/true"))
    if drop_in:
        folder = tmp_path / f"{UNITS[0]}.d"
        folder.mkdir()
        text = (EXAMPLES / "prometheus.conf").read_text()
        (folder / "override.conf").write_text(
            text.replace("/opt/gpu-node/bin/gpu-node", "/bin/true")
        )
    command = ["systemd-analyze", "verify", *(str(tmp_path / unit) for unit in UNITS)]
    done = subprocess.run(command, capture_output=True, text=True)
    ours = [line for line in done.stderr.splitlines() if "gpu-node" in line]
    assert (done.returncode, ours) == (0, []), done.stderr


@pytest.mark.parametrize("file", [*UNITS, "prometheus.conf"])
def test_what_they_start_exists(file: str) -> None:
    """Each ExecStart= is a command line of gpu-node, with options that it has."""
    lines = re.findall(r"^ExecStart=\S*/bin/(gpu-node .*)$", (EXAMPLES / file).read_text(), re.M)
    for line in lines:
        parse(words(line))
    assert bool(lines) == (file != UNITS[1])


def test_the_page_shows_the_drop_in_and_the_ci_file() -> None:
    """As the files are; the page may leave out comments."""
    assert (EXAMPLES / "prometheus.conf").read_text() in blocks(
        DOCS / "how-to" / "prometheus.md", "text"
    )
    shown = blocks(DOCS / "how-to" / "ci.md", "text")
    ci = yaml.safe_load((EXAMPLES / "gitlab-ci.yml").read_text())
    assert ci == yaml.safe_load(shown[0])
    for job in ci.values():
        for line in job["script"]:
            parse(words(line))


def test_the_alerts_are_about_metrics_that_a_report_writes() -> None:
    """With their labels; the page has the file, and names each metric."""
    text = (EXAMPLES / "alerts.yml").read_text()
    page = (DOCS / "how-to" / "prometheus.md").read_text()
    report = reports.report({"a": states.seen(reports.FRESH)})
    written = "".join(parts("prometheus", View(report), Page(Console(file=io.StringIO()))))
    names = {*re.findall(r"^# TYPE (\S+) gauge$", written, re.M)}
    labels = {*re.findall(r"[{,](\w+)=", written)}
    used = {*re.findall(r"\b(gpu_node_\w+)", text)}
    assert used and used <= names and names <= {*re.findall(r"`(gpu_node_\w+)`", page)}
    assert {*re.findall(r"\$labels\.(\w+)", text)} <= labels
    assert text in blocks(DOCS / "how-to" / "prometheus.md", "text")


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A folder with the Slurm program by its three names, stand-ins, and a log of scontrol."""
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    for name in NAMES:
        (tmp_path / name).symlink_to(HEALTH)
    (tmp_path / "scontrol").write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >>{tmp_path}/log\n')
    (tmp_path / "scontrol").chmod(0o755)
    return tmp_path


def run(node: Path, name: str, gpu_node: str) -> subprocess.CompletedProcess[str]:
    """Run the program by a name, beside a gpu-node that is this script."""
    (node / "gpu-node").write_text(gpu_node)
    (node / "gpu-node").chmod(0o755)
    env = {"PATH": f"{node}:{os.environ['PATH']}", "SLURMD_NODENAME": "a100-01"}
    # -I in its first line would not keep the link's folder: sys.executable is what is called.
    command = [str(node / "python"), str(node / name)]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=60)


def reporting(*findings: tuple[str, str]) -> str:
    """Return a gpu-node that reports these rules with their severities."""
    listed = [{"rule": rule, "severity": severity} for rule, severity in findings]
    report: dict[str, Any] = {"hosts": {"@local": {"findings": listed}}}
    asked = "[ \"$*\" = 'drift @local --format json' ] || exit 9"
    return f"#!/bin/sh\n{asked}\ncat <<'E'\n{json.dumps(report)}\nE\nexit 2\n"


FAULT = reporting(
    ("shm.too-small", "error"), ("driver.not-loaded", "error"), ("ssh.no-login", "error")
)
REASON = "gpu-node: driver.not-loaded shm.too-small"


@pytest.mark.parametrize(("name", "code"), [*zip(NAMES, (0, 0, 1), strict=True)])
def test_a_fault_drains_the_node_or_fails_the_prolog(node: Path, name: str, code: int) -> None:
    """slurmd does not start before its health check ends with 0; a person may look first."""
    done = run(node, name, FAULT)
    assert (done.returncode, done.stdout.strip()) == (code, REASON), done
    drained = (node / "log").read_text() if (node / "log").exists() else ""
    expected = f"update nodename=a100-01 state=drain reason={REASON}\n"
    assert drained == (expected if name == "gpu-node-health-check" else "")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "gpu_node",
    [
        reporting(),
        reporting(("shm.too-small", "warning"), ("toolchain.cmake-old", "error")),
        "#!/bin/sh\necho 'gpu-node: no space left' >&2; exit 1\n",
        "#!/bin/sh\necho '{'; exit 1\n",
    ],
    ids=["healthy", "other-rules", "no-report", "half-a-report"],
)
def test_nothing_else_does(node: Path, name: str, gpu_node: str) -> None:
    """A gpu-node that fails is no fault of the node: it would drain the whole cluster."""
    done = run(node, name, gpu_node)
    assert (done.returncode, done.stdout) == (0, ""), done
    assert not (node / "log").exists()


def test_its_rules_exist() -> None:
    """And they can be errors."""
    text = HEALTH.read_text()
    named = re.findall(r'^    "([a-z]+\.[a-z-]+)",$', text, re.MULTILINE)
    assert len(named) > 5 and {*named} <= {*RULES}
    assert [rule for rule in named if "error" not in RULES[rule].severity] == []
