"""Files of a job that are made to harm: each is read or refused in little time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_node.drift.job import configs
from gpu_node.drift.job.configs import Accelerate, Wrong
from tests.case_files import load

CASES = load(Path(__file__).with_name("hostile.yml").read_text())
# Reads a text in a fresh process, in which other tests have left nothing.
READS = """
import resource, sys
from gpu_node.drift.job.configs import accelerate
text = sys.stdin.read()
with open("/proc/self/statm") as file:
    size = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (48 << 20),) * 2)
resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
print(accelerate(text))
"""
HASH = (1 << 61) - 1


def text_of(case: dict[str, object]) -> str:
    """Return the text of a case, of which a part is repeated."""
    part = str(case.get("part", ""))
    times = range(1, int(str(case.get("times", 0))) + 1)
    filled = (
        part.replace("{n}", str(n)).replace("{m}", str(n - 1)).replace("{p}", str(n * HASH))
        for n in times
    )
    return f"{case.get('before', '')}{''.join(filled)}{case.get('after', '')}"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_configuration_of_accelerate(case: dict[str, object]) -> None:
    text = text_of(case)
    done = subprocess.run([sys.executable, "-c", READS], input=text, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    found = configs.accelerate(text)
    if "wrong" in case:
        assert isinstance(found, Wrong)
        assert [found.found, found.allowed, found.line] == case["wrong"]
    elif "wrong_key" in case:
        assert isinstance(found, Wrong)
        assert found.key == case["wrong_key"]
        assert len(found.found) <= 40
    else:
        assert isinstance(found, Accelerate)


def test_a_wrong_value_is_shown_as_json() -> None:
    """Its beginning; what is behind it is not written."""
    value = [{"stage": [1, None, True]}, {"a": {"b": "c" * 100}}]
    found = configs.deepspeed(json.dumps({"zero_optimization": {"stage": value}}))
    assert isinstance(found, Wrong)
    assert found.found == json.dumps(value)[:40]
