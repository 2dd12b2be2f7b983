"""Users of a node plant links and rename folders during a run; no other file changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from gpu_node.lab import disks, nodes
from gpu_node.lab.machine import as_root
from tests.e2e import planting
from tests.e2e.conftest import write_inventory
from tests.e2e.on_lab import MANAGED, Converge, Run, changed, converge, drift, manifest, on, run

pytestmark = pytest.mark.lab_slow
NODE, OTHER = "v100-01", "a100-01"
HOME, WORKSPACE = "/home/train", "/data/workspace/code"
ENVIRONMENT = f"{HOME}/dis"
# Of who trains, and of a second user: what a run reads or writes, and folders on the way to it.
HOME_FILES = (
    *(".bashrc", ".bash_profile", ".profile", ".nccl.conf", ".deepspeed_env", ".condarc"),
    *(".ssh/authorized_keys", ".ssh/known_hosts", ".ssh/config", ".ssh/id_ed25519.pub"),
    *(".config/pip/pip.conf", "dis/pyvenv.cfg", "dis/pip.conf"),
)
PACKAGES = f"{ENVIRONMENT}/lib/python3*/site-packages"
ATTACKED = (
    *(f"{HOME}/{each}" for each in HOME_FILES),
    *(f"{PACKAGES}/nvidia/nccl/lib/libnccl.so.2", f"{PACKAGES}/torch/version.py"),
    f"{WORKSPACE}/train.py",
)
RENAMED = (
    *(f"{HOME}/.ssh", f"{HOME}/.config", f"{ENVIRONMENT}/lib", WORKSPACE),
    *(f"{PACKAGES}/nvidia", f"{WORKSPACE}/lib"),
)
# The training user, who owns an environment and the workspace's folder; and another user.
USERS = f"""
useradd -m -s /bin/bash train; useradd -m -s /bin/bash mallory
cp -a /root/miniconda3/envs/dis {ENVIRONMENT}
find {ENVIRONMENT}/bin -type f -exec sed -i 's|/root/miniconda3/envs/dis|{ENVIRONMENT}|g' {{}} +
cp /etc/pip.conf {ENVIRONMENT}/pip.conf
mkdir -p {HOME}/.ssh {HOME}/.config/pip; touch {HOME}/.config/pip/pip.conf
printf 'HF_TOKEN=%s\\n' hf_of_a_user >{HOME}/.deepspeed_env
install -d -o train -g train /data/workspace
chown -R train: {HOME}; chmod 700 {HOME} {HOME}/.ssh
"""
# Where the users may write, and what every run writes anew, under a name of its own.
THEIRS = re.compile(r"^(home/(train|mallory)|data/workspace|dev/shm)(/|$)")
RUN = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")


@dataclass(frozen=True)
class Outcome:
    """The output of a run, and the paths of root that it changed."""

    report: Run
    done: Converge
    changed: set[str]
    rounds: int = 0


@pytest.fixture(scope="module")
def path(the_lab: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An inventory in which `train` trains, with an environment and a workspace of their own."""
    into = tmp_path_factory.mktemp("inventory")
    source = into / "code"
    (source / "lib").mkdir(parents=True)
    (source / "train.py").write_text("import lib\n")
    (source / "lib" / "net.py").write_text("")
    path = write_inventory(into, {})
    file = Path(path).with_suffix(".yml")
    cluster = yaml.safe_load(file.read_text())
    defaults = cluster["defaults"]
    defaults["launcher"] = {"user": "train"}
    defaults["nccl"]["environments"] = [ENVIRONMENT]
    del defaults["nccl"]["copy_from"]
    defaults["workspace"] = {"path": WORKSPACE, "source": "controller", "from": str(source)}
    file.write_text(yaml.safe_dump(cluster))
    yield path
    nodes.reset(MANAGED)


def prepare() -> dict[str, str]:
    """Reset both nodes, with the users; return what is on the node's disk."""
    nodes.reset(MANAGED)
    for node in MANAGED:
        on(node, USERS)
    planting.guard(NODE)
    return manifest(NODE)


def of_root(before: dict[str, str]) -> set[str]:
    """Return the paths that changed since then, but for the users' own."""
    new = changed(before, manifest(NODE))
    return {RUN.sub("RUN", each) for each in new if not THEIRS.match(each)}


@pytest.fixture(scope="module")
def in_peace(path: str) -> Outcome:
    """The run without an attack."""
    before = prepare()
    report = drift(path)
    done = converge(path)
    return Outcome(report, done, of_root(before))


@pytest.fixture(scope="module")
def attacked(path: str, in_peace: Outcome) -> Iterator[Outcome]:
    """The run while both users of one node attack."""
    before = prepare()
    planting.begin(NODE, "train", " ".join(RENAMED), " ".join(ATTACKED))
    planting.begin(NODE, "mallory", "", "/home/mallory/.nccl.conf")
    try:
        report = drift(path)
        done = converge(path)
        again = converge(path, "-vvv")
        dry = run("pyinfra", "--dry", path, "deploy/gpu_node.py", "-vv")
    finally:
        rounds = min(planting.end(NODE, user) for user in ("train", "mallory"))
    words = "\n".join((done.err, again.err, dry.out, dry.err))
    yield Outcome(report, Converge(done.code, done.executed, done.failed, words), of_root(before),
                  rounds)  # fmt: skip


def test_in_peace_all_is_repaired(in_peace: Outcome) -> None:
    """The targets are what a run changes: homes, an environment, a workspace."""
    assert in_peace.done.code == 0, in_peace.done.err
    assert any(each.startswith("Workspace | Copy") for each in in_peace.done.executed)


def test_there_were_many_rounds(attacked: Outcome) -> None:
    """Each has five targets in turn, three times or more; how many fit depends on the machine."""
    assert attacked.rounds >= 15


def test_no_file_of_others_changes(attacked: Outcome, in_peace: Outcome) -> None:
    """Outside of the users' files, the run writes the same as without the attack."""
    own = re.compile(r"^(var/backups/gpu-node|var/lib/gpu-node|root/vault)")
    assert {each for each in attacked.changed - in_peace.changed if not own.match(each)} == set()


@pytest.mark.parametrize("file", planting.FILES)
def test_secrets_stay(attacked: Outcome, file: str) -> None:
    """Each is unchanged and was not even read: its access time is the first one."""
    found = on(NODE, f"stat -c '%a %U %h %x %y' {file}; cat {file}")
    mode, rest = found.split(" ", 1)
    assert mode == "600"
    assert rest.startswith("root 1 2001-01-01")
    assert "2002-01-01" in rest
    assert rest.rstrip().endswith(planting.SECRET)


def test_nothing_appears_in_folders_of_root(attacked: Outcome) -> None:
    """A link in the place of a folder is not followed."""
    assert on(NODE, "ls -A /root/vault /opt/vault").split() == [
        *("/opt/vault:", "secret", "/root/vault:", "secret"),
    ]
    assert on(NODE, "ls -d /etc/cron.d/appears /etc/appears 2>/dev/null || :") == ""


def test_nothing_is_shown(attacked: Outcome) -> None:
    """No secret is in the report, in the output of the run, or in another file of the node."""
    for text in (attacked.report.out, attacked.report.err, attacked.done.err):
        assert planting.SECRET not in text
        assert "hf_of_a_user" not in text
    shadow = on(NODE, "cut -d: -f2 /etc/shadow | grep '[$]' || :").split()
    assert not any(each in attacked.report.out + attacked.done.err for each in shadow)
    upper = disks.home(NODE) / "upper"
    found = as_root(["grep", "-rlF", planting.SECRET, upper], check=False).stdout.split()
    assert sorted(each.removeprefix(str(upper)) for each in found) == sorted(planting.FILES)


def test_nothing_of_root_is_a_users(attacked: Outcome) -> None:
    """No setuid program of root is among a user's files, and only root can read backups."""
    assert (
        on(NODE, f"find {HOME} /home/mallory /data /tmp /var/tmp -xdev -user root -perm /6000")
        == ""
    )
    kept = "/var/backups/gpu-node /var/lib/gpu-node/pending"
    found = on(NODE, f"find {kept} -type d ! -perm 700 2>/dev/null || :")
    assert found == ""
    assert (
        on(NODE, "find /var/backups/gpu-node /var/lib/gpu-node ! -user root 2>/dev/null || :") == ""
    )


def test_the_other_node_is_repaired(attacked: Outcome) -> None:
    """An attack on one node delays no other."""
    assert OTHER not in attacked.done.failed, attacked.done.err
