"""What a killed script has left in /var/tmp is removed by the next one, and nothing else there."""

from __future__ import annotations

import pytest

from gpu_node.deploy.engine import scripts
from gpu_node.deploy.engine.scripts import FILES, Script, needed, script
from tests.deploy.running import run_apart

# In /var/tmp; the second column is how old they are.
KILLED = "gpu-node-wheels.killed gpu-node-packages.killed gpu-node-pip.killed gpu-node-box.killed"
# Another run has sent it, and waits for the lock: there is no sign that it lives.
SENT = "gpu-node-sent.waiting"
BEFORE = f"""
mount -t tmpfs -o mode=1777 tmpfs /var/tmp
cd /var/tmp; mkdir {KILLED} {SENT} gpu-node-sent.old users
for each in {KILLED} {SENT}; do echo a >$each/file; done
touch -d '2 days ago' gpu-node-sent.old
"""
LEFT = '[ "$(ls -A /var/tmp | tr "\\n" " ")" = "%s" ]'


def refusing(name: str) -> Script:
    """Return a script that refuses to begin: there is no such environment."""
    return script(name, prefix="/nonexistent", keep="a==1", remove="", pins="a==1")


@pytest.mark.parametrize("name", ["wheels", "packages_pip"])
def test_a_killed_run(shell: str, name: str) -> None:
    """A run that holds the lock is alone: what others have made under it is of killed runs."""
    after = [LEFT % f"{SENT} users "]
    done = run_apart(refusing(name), shell, BEFORE, after)
    assert done.code == 1, done
    assert done.err.startswith("gpu-node: /nonexistent: "), done


def test_without_a_lock(shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no lock, another run may be at work: only what is a day old is removed."""
    monkeypatch.setattr(scripts, "LOCK", "/nonexistent/lock")
    before = f"{BEFORE}\ntouch -d '2 days ago' gpu-node-pip.killed"
    left = sorted([*KILLED.split(), SENT, "users"])
    left.remove("gpu-node-pip.killed")
    done = run_apart(refusing("wheels"), shell, before, [LEFT % " ".join([*left, ""])])
    assert done.code == 1, done


@pytest.mark.parametrize("name", sorted(name for name in FILES if "leftovers" in needed(name)))
def test_what_is_made_under_the_lock(name: str) -> None:
    """A copy that a run has made while it waits for the lock would be removed by another one."""
    first = needed(name)
    before, _, after = " ".join(first).partition(" lock ")
    assert "leftovers" in after.split() and "take" not in before.split()
    if "take" in first:
        assert first.index("leftovers") < first.index("take")
