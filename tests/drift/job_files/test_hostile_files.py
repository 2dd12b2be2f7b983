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
# Reads each text in a fork of a fresh process, in which other tests have left nothing.
READS = """
import json, os, resource, sys
from gpu_node.drift.job.configs import accelerate

def read(text):
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (48 << 20),) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
    accelerate(text)

codes = {}
for name, text in json.load(sys.stdin).items():
    if not (pid := os.fork()):
        read(text)
        os._exit(0)
    codes[name] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
json.dump(codes, sys.stdout)
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


@pytest.fixture(scope="module")
def codes() -> dict[str, int]:
    """The exit code of each reading."""
    given = json.dumps({name: text_of(case) for name, case in CASES.items()})
    words = [sys.executable, "-c", READS]
    done = subprocess.run(words, input=given, text=True, stdout=subprocess.PIPE, check=True)
    found: dict[str, int] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_configuration_of_accelerate(name: str, codes: dict[str, int]) -> None:
    case = CASES[name]
    assert codes[name] == 0
    found = configs.accelerate(text_of(case))
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
