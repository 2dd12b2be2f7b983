"""One command makes a bare server a member, despite interruptions; another removes it."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_node.deploy.engine.pyinfra_process import VARIABLE
from gpu_node.facts.ssh.state import fingerprint
from gpu_node.lab import disks, keys, nodes, roster
from gpu_node.lab.launcher import layer
from gpu_node.lab.machine import as_root
from gpu_node.onboarding import admission, joining
from tests import fork_server
from tests.e2e.on_lab import BIN, MANAGED, NOISE, REPOSITORY, Run, converge, drift, on

pytestmark = pytest.mark.lab

NEW = roster.NODES["v100-02"]
STAGES = (*admission.STAGES, *joining.STAGES)
# What is written for it, as the other hosts are.
ENTRY = f"  {NEW.name}: {{address: {NEW.address}, group: v100}}"
SECONDS = 600
# No machine has this address; a node of the lab has the other ones.
NOWHERE = "10.168.144.77"
PCI = "/sys/bus/pci/devices"
# After a stage has begun, until Ctrl-C is pressed in it.
PAUSE = 0.1


class Site:
    """An inventory of two converged nodes, without the third one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "site.yml"
        self.known_hosts = folder / "known_hosts"
        self.state = folder / "state"
        self.begun = folder / "begun"
        self.key = fingerprint(keys.public(keys.host_key(NEW.name))).split()[1]
        self.password = roster.password_file(NEW.name).read_text().strip()
        self.was_joined = False

    def write(self) -> None:
        """Write the lab's inventory as a user's file, with comments."""
        text = (REPOSITORY / "inventories" / "lab.yml").read_text()
        text = text.replace("../.lab/known_hosts", "known_hosts").replace(
            "../.lab", str(roster.STATE)
        )
        text = text.replace(
            "\ngroups:", "\n  launcher: {kind: torchrun, python: /usr/bin/python3}\n\ngroups:"
        )
        self.file.write_text(text)
        inventory = (REPOSITORY / "inventories" / "lab.py").read_text()
        self.file.with_suffix(".py").write_text(inventory)
        pinned = {name: keys.public(keys.host_key(name)) for name in MANAGED}
        self.known_hosts.write_text(keys.known_hosts(pinned))

    def command(self, *words: str, inventory: Path | None = None) -> list[str]:
        return [str(BIN / "gpu-node"), *words, "--inventory", str(inventory or self.file)]

    def environment(self, password: str | None) -> dict[str, str]:
        given = {} if password is None else {VARIABLE: password}
        path = f"{BIN}:{os.environ['PATH']}"
        return {**os.environ, **given, "PATH": path, "XDG_STATE_HOME": str(self.state)}

    def run(self, *words: str, password: str | None = None, inventory: Path | None = None) -> Run:
        """Run a command to its end, without a terminal."""
        _, *given = self.command(*words, inventory=inventory)
        env = self.environment(password)
        done = fork_server.run("gpu-node", *given, cwd=REPOSITORY, env=env, seconds=SECONDS)
        assert "Traceback" not in done.stderr, done.stderr
        return Run(done.returncode, done.stdout, done.stderr)

    def onboard(self, *words: str, password: str | None = None) -> Run:
        """Onboard the new server, its host key given beforehand."""
        given = ["onboard", NEW.name, "-y", "--verify", "gloo", "--accept-host-key", self.key]
        return self.run(*given, *words, password=self.password if password is None else password)

    def stopped_in(self, stage: str, *words: str) -> tuple[int, str]:
        """Press Ctrl-C in a stage; return the exit code and the whole output."""
        given = ["onboard", NEW.name, *words, "-y", "--verify", "gloo"]
        lines: list[str] = []
        with subprocess.Popen(
            self.command(*given, "--accept-host-key", self.key),
            cwd=REPOSITORY,
            env=self.environment(self.password),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                if line.startswith(f"== {stage}:"):
                    later = threading.Timer(PAUSE, os.killpg, [process.pid, signal.SIGINT])
                    later.start()
            code = process.wait(SECONDS)
        return code, "".join(lines)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Two converged nodes and a bare one; on all of them PyTorch, on the bare one nothing else."""
    return before_it_comes(tmp_path_factory.mktemp("site"))


def before_it_comes(folder: Path) -> Site:
    """Put the lab into the state before the onboarding."""
    nodes.reset()
    layer.give([*MANAGED, NEW.name])
    on(NEW.name, "dpkg --purge --force-depends rsync >/dev/null 2>&1; ! command -v rsync")
    site = Site(folder)
    site.write()
    site.begun.touch()
    done = converge(str(site.file.with_suffix(".py")))
    assert done.code == 0, done.err
    return site


@pytest.fixture
def unchanged(site: Site) -> Iterator[None]:
    """A refused command changes neither the cluster file nor a member."""
    before = site.file.read_bytes(), {node: contents(node) for node in MANAGED}
    yield
    assert (site.file.read_bytes(), {node: contents(node) for node in MANAGED}) == before


def contents(node: str) -> dict[str, str]:
    """Return the sum of each file on a node's disk, without backups and its own logs."""
    upper = disks.home(node) / "upper"
    listed = as_root(["sh", "-c", 'cd "$1" && find . -type f -exec sha256sum {} +', "sh", upper])
    pairs = (line.split("  ./", 1) for line in listed.stdout.splitlines())
    return {
        path: digest
        for digest, path in pairs
        if not NOISE.match(path) and not path.startswith("var/backups/gpu-node/")
    }


@pytest.mark.usefixtures("unchanged")
class TestRefused:
    """Each with its reason and exit 1, and nothing written."""

    def test_a_machine_without_gpus(self, site: Site) -> None:
        on(NEW.name, f"mkdir /run/cards && mv {PCI}/0000* /run/cards/")
        try:
            done = site.onboard(NEW.address)
        finally:
            on(NEW.name, f"mv /run/cards/* {PCI}/ && rmdir /run/cards")
        assert done.code == 1
        assert "a server without a GPU trains nothing" in done.out
        assert "found 1 stop (driver.no-gpu: GPUs); next: " in done.err

    def test_a_full_disk(self, site: Site) -> None:
        """On the server, where cmake and the driver's headers go."""
        on(NEW.name, "mount -t tmpfs -o size=64k full /opt && head -c 60000 /dev/zero >/opt/f")
        try:
            done = site.onboard(NEW.address)
        finally:
            on(NEW.name, "umount /opt")
        assert done.code == 1
        assert "/opt" in done.err

    def test_another_host_key_than_at_first_contact(self, site: Site) -> None:
        """It was pinned by the runs before; the server is installed anew, or it is another one."""
        assert NEW.address in site.known_hosts.read_text()
        other = "ssh-keygen -q -t ed25519 -N '' -f /root/other"
        host = "/etc/ssh/ssh_host_ed25519_key"
        on(NEW.name, f"{other} && cp -p {host} /root/kept && cat /root/other >{host}")
        on(NEW.name, f"cp -p {host}.pub /root/kept.pub && cat /root/other.pub >{host}.pub")
        nodes.recreate(NEW.name)
        try:
            done = site.run("onboard", NEW.name, NEW.address, "-y", password=site.password)
            found = fingerprint(on(NEW.name, "cat /root/other.pub").strip())
        finally:
            on(NEW.name, f"cat /root/kept >{host}; cat /root/kept.pub >{host}.pub")
            on(NEW.name, "rm -f /root/other* /root/kept*")
            nodes.recreate(NEW.name)
        assert done.code == 1
        assert site.key in done.err and found.split()[1] in done.err

    def test_a_dry_run_says_what_would_be_done(self, site: Site) -> None:
        done = site.onboard(NEW.address, "--dry")
        assert done.code == 0, done.err
        assert f"+{ENTRY}\n" in done.out
        assert "driver.not-installed" in done.out
        assert "would be copied from v100-01 to the same path" in done.out
        assert f"mesh: on {', '.join(MANAGED)}: {NEW.name} would be written to" in done.out
        assert f"{NEW.name}: could be a member" in done.out


STOPS = [
    pytest.param(("mesh", "report"), id="stopped twice"),
    pytest.param(STAGES, id="stopped in every stage", marks=pytest.mark.lab_slow),
]


@pytest.fixture(scope="module", params=STOPS)
def stops(request: pytest.FixtureRequest, site: Site) -> tuple[str, ...]:
    """The stages in which Ctrl-C comes; the server has not joined."""
    if site.was_joined:  # with other stops
        before_it_comes(site.folder)
    site.was_joined = True
    stages: tuple[str, ...] = request.param
    return stages


@pytest.fixture(scope="module")
def as_members_were(stops: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """The content of the members' disks before the server joined."""
    return {node: contents(node) for node in MANAGED}


@pytest.fixture(scope="module")
def joined(
    site: Site, stops: tuple[str, ...], as_members_were: dict[str, dict[str, str]]
) -> dict[str, str]:
    """The server is a member, after Ctrl-C in some stages; the output of each run, by stage."""
    lines = site.file.read_text().splitlines()
    outputs = {}
    last = ""
    for stage in stops:
        if last and STAGES.index(stage) <= STAGES.index(last):
            continue  # the one before was quicker than the pause: this one was interrupted
        if stage == "report":  # as after a new installation: the key is gone, the password is not
            on(NEW.name, "rm /root/.ssh/authorized_keys")
            outputs["dry"] = begun(site)
        # Of a first contact that ended before it knew the host key, nothing is noted.
        is_noted = not outputs.keys() <= {"contact"}
        code, output = site.stopped_in(stage, *([] if is_noted else [NEW.address]))
        assert code == 1, (stage, output)
        assert "interrupted" in output and "run the same command to continue" in output
        after = site.file.read_text().splitlines()
        added = [line for line in after if line not in lines]
        last = [each for each in STAGES if f"== {each}: " in output][-1]
        is_entered = STAGES.index(last) > STAGES.index("entry")
        assert added in ([], [ENTRY]) if last == "entry" else added == [ENTRY] * is_entered, output
        assert [line for line in after if line not in added] == lines
        outputs[stage] = output
    done = site.onboard("--disable-password")
    assert done.code == 0, done.err
    assert done.out.endswith(f"{NEW.name}: a member, and proved\n")
    return {**outputs, "end": done.out + done.err}


def begun(site: Site) -> str:
    """Dry-run for a server whose onboarding was interrupted, and which then lost our key."""
    done = site.onboard("--dry")
    assert done.code == 0, done.err
    assert "done before: pre-flight, entry; would be done now: contact, mesh, " in done.out
    assert done.out.endswith(f"{NEW.name}: could be a member\n")
    return done.out + done.err


def test_a_key_that_is_lost_is_let_in_again(joined: dict[str, str]) -> None:
    """In the run after the loss, and otherwise at first contact, perhaps interrupted."""
    runs = {stage for stage, output in joined.items() if "key is let in as root" in output}
    assert {"report"} <= runs <= {"contact", "pre-flight", next(iter(joined)), "report"}


def test_it_is_a_member(site: Site, joined: dict[str, str]) -> None:
    """The whole cluster's report is clean; the file has one line more, and all its comments."""
    report = drift(str(site.file.with_suffix(".py")))
    assert report.code == 0, report.out
    assert set(report.json["hosts"]) == {*MANAGED, NEW.name}
    assert f"{ENTRY}\n" in site.file.read_text()
    assert "# What a host says beats" in site.file.read_text()


def test_it_works_with_the_others(site: Site, joined: dict[str, str]) -> None:
    """Read back by another path: logins by name, the module, /dev/shm, the interface."""
    for here, there in ((NEW.name, MANAGED[0]), (MANAGED[0], NEW.name)):
        assert on(here, f"ssh -o BatchMode=yes {there} hostname").strip() == there
    assert on(NEW.name, "lsmod | grep -c '^nvidia '").strip() == "1"
    assert on(NEW.name, "nvidia-smi --query-gpu=name --format=csv,noheader").count("V100") == 2
    assert on(NEW.name, "df -k --output=size /dev/shm | tail -n 1").split() == [str(8 * 1024**2)]
    found = on(NEW.name, "/usr/sbin/sshd -T | grep -i '^passwordauthentication'")
    assert found.split() == ["passwordauthentication", "no"]
    conf = on(NEW.name, "cat /etc/nccl.conf").splitlines()
    assert f"NCCL_SOCKET_IFNAME=={NEW.interface}" in conf
    assert any("all_reduce" in output or "GB/s" in output for output in joined.values())


def test_a_second_time_nothing_is_done(site: Site, joined: dict[str, str]) -> None:
    before = site.file.read_bytes(), {node: contents(node) for node in (*MANAGED, NEW.name)}
    done = site.onboard()
    assert done.code == 0, done.err
    assert done.out.endswith(f"{NEW.name}: a member already, and clean\n")
    now = site.file.read_bytes(), {node: contents(node) for node in (*MANAGED, NEW.name)}
    assert now == before


def test_one_of_many_that_is_not_there(site: Site, joined: dict[str, str]) -> None:
    """Each separately, and one summary."""
    file = site.folder / "new.csv"
    file.write_text(f"name,address\n{NEW.name},{NEW.address}\nv100-09,{NOWHERE}\n")
    before = site.file.read_bytes()
    done = site.run("onboard", "--from", str(file), "-y", password=site.password)
    assert (done.code, site.file.read_bytes()) == (1, before)
    assert f"{NEW.name}  a member already, and clean" in done.out
    assert f"v100-09: found no way to {NOWHERE}:22 (No route to host)" in done.err
    assert f"v100-09  found no way to {NOWHERE}:22" in done.out


def test_the_password_is_nowhere(site: Site, joined: dict[str, str]) -> None:
    """In no file that was written here or there, in no log, and in no output."""
    assert site.password not in "".join(joined.values())
    places = [site.folder, Path.home(), Path("/tmp"), Path("/var/log")]
    search = 'find "$@" -xdev -type f -newer "$0" -exec grep -laF -e "$SECRET" {} +'
    words: list[str | Path] = [
        "env",
        f"SECRET={site.password}",
        "sh",
        "-c",
        search,
        site.begun,
        *places,
    ]
    found = as_root(words, check=False).stdout.splitlines()
    assert [each for each in found if not each.endswith(".password")] == []
    for node in (*MANAGED, NEW.name):
        upper = disks.home(node) / "upper"
        assert as_root(["grep", "-rlaF", "-e", site.password, upper], check=False).stdout == ""
        assert site.password not in nodes.logs(node)


def test_the_others_forget_a_node_that_is_removed(
    site: Site, joined: dict[str, str], as_members_were: dict[str, dict[str, str]]
) -> None:
    """The other nodes are byte for byte as before it joined; the node itself is unchanged."""
    kept, pinned = contents(NEW.name), site.known_hosts.read_text()
    refused = site.run("remove", NEW.name)
    assert refused.code == 1 and "allowed: a terminal, or -y" in refused.err
    done = site.run("remove", NEW.name, "-y")
    assert done.code == 0, done.err
    site_as_written = Site(site.folder / "again")
    site_as_written.folder.mkdir(exist_ok=True)
    site_as_written.write()
    assert site.file.read_text() == site_as_written.file.read_text()
    assert site.known_hosts.read_text() == site_as_written.known_hosts.read_text() != pinned
    assert contents(NEW.name) == kept
    for node in MANAGED:
        assert contents(node) == as_members_were[node]
    assert drift(str(site.file.with_suffix(".py"))).code == 0
    again = site.run("remove", NEW.name, "-y")
    assert again.code == 1 and f"found {NEW.name!r} (no such host" in again.err
