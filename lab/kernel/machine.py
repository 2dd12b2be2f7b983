"""Starts a virtual machine on a disk of its own, and reads and reboots it over SSH."""

import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import IO

from lab import keys, roster
from lab.errors import LabError
from lab.kernel import disk, qemu
from lab.machine import run
from lab.progress import step

ADDRESS = "127.0.0.1"
# An emulated processor takes half a minute from the BIOS to sshd.
BOOT_SECONDS = 240
SHOWN = 40


class Machine:
    """A running virtual machine; `start` makes one."""

    def __init__(self, name: str, lock: IO[str], kept: Path | None = None) -> None:
        self.name = name
        self.home = home(name)
        self.address = ADDRESS
        self.port = qemu.free_port()
        self.known_hosts = self.home / "known_hosts"
        self._lock = lock
        self.kernels = disk.copy(self.home)
        if kept is None:
            self._give_keys()
        else:
            run(["cp", "--sparse=always", "--reflink=auto", kept, self._disk])
        self._pin()
        self._ending = False
        self._process = self._powered_on()
        self._power = threading.Thread(target=self._keep_power, daemon=True)
        self._power.start()

    def _powered_on(self) -> subprocess.Popen[bytes]:
        with (self.home / "qemu.log").open("a") as said:
            return subprocess.Popen(
                qemu.command(self.home, self.port),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    def _keep_power(self) -> None:
        """Start qemu anew when the machine resets itself, whoever has it rebooted."""
        while self._process.wait() == 0 and not self._ending:
            self._process = self._powered_on()

    def _give_keys(self) -> None:
        """Put the lab's key and a host key on the disk."""
        key = keys.host_key(self.name)
        keys.make_key(key, self.name)
        authorized = self.home / "authorized_keys"
        authorized.write_text(f"{keys.public(roster.CLIENT_KEY)} gpu-node-lab\n")
        write(self._disk, key, "/etc/ssh/ssh_host_ed25519_key")
        write(self._disk, authorized, "/root/.ssh/authorized_keys")

    def _pin(self) -> None:
        pinned = f"[{self.address}]:{self.port} {keys.public(keys.host_key(self.name))}\n"
        keys.write_private(self.known_hosts, pinned)

    @property
    def _disk(self) -> Path:
        return self.home / "root.raw"

    def run(self, script: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a POSIX sh script as root in an SSH session of its own; 255: there was none."""
        options = {
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": f'"{self.known_hosts}"',
            "GlobalKnownHostsFile": "/dev/null",
            "ConnectTimeout": "10",
            "ServerAliveInterval": "10",
            "LogLevel": "ERROR",
        }
        told = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        ssh = ["ssh", "-F", "none", "-i", str(roster.CLIENT_KEY), "-p", str(self.port), *told]
        command = [*ssh, f"root@{self.address}", f"exec sh -c {shlex.quote(script)}"]
        try:
            return subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise self._failed(f"a script did not end within {seconds:g} s") from None

    def read(self, script: str, seconds: float = 120) -> str:
        """What a script prints that must succeed, without the last newline."""
        done = self.run(script, seconds)
        if done.returncode != 0:
            raise LabError(f"{self.name}: a script ended {done.returncode}: {done.stderr.strip()}")
        return done.stdout.rstrip("\n")

    def boot_id(self) -> str:
        """What tells this boot from every other; empty while there is no SSH."""
        return self.run("cat /proc/sys/kernel/random/boot_id", seconds=60).stdout.strip()

    def wait(self, before: str = "", seconds: float = BOOT_SECONDS) -> None:
        """Wait for SSH into another boot than the one `before`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self._power.is_alive():
                raise self._failed(f"qemu ended {self._process.poll()}")
            if self.boot_id() not in ("", before):
                return
            time.sleep(0.5)
        raise self._failed(f"no SSH within {seconds:g} s")

    def reboot(self) -> None:
        """Reboot as `systemctl reboot` does, and wait for the new boot."""
        before = self.boot_id()
        if not before:
            raise self._failed("no SSH to reboot it by")
        self.run("systemctl reboot")
        self.wait(before)

    def keep(self, file: Path) -> None:
        """Copy the disk as it is now; another machine of this name may `start` from it."""
        self.read("sync")
        part = file.with_suffix(".part")
        self._process.send_signal(signal.SIGSTOP)
        try:
            run(["cp", "--sparse=always", "--reflink=auto", self._disk, part])
        finally:
            self._process.send_signal(signal.SIGCONT)
        # GRUB reads what is written, and not what the journal holds: 1 means that it was repaired.
        checked = run(["e2fsck", "-p", part], check=False)
        if checked.returncode > 1:
            raise self._failed(f"its disk cannot be kept: {checked.stdout}")
        part.rename(file)

    def power_off(self, seconds: float = 60) -> None:
        """Shut it down in good order; one that does not is cut off and said to be."""
        self._ending = True
        self.run("systemctl poweroff")
        self._power.join(seconds)
        hangs = self._power.is_alive()
        self.remove()
        if hangs:
            raise self._failed(f"it did not power off within {seconds:g} s")

    def remove(self) -> None:
        """Cut its power if it runs, and delete its disk; what its console said stays."""
        self._ending = True
        while self._power.is_alive():
            self._process.kill()
            self._power.join(1)
        self._disk.unlink(missing_ok=True)
        self._lock.close()

    def console(self) -> str:
        """All that the BIOS, GRUB and the kernels have said."""
        file = self.home / "console.log"
        return file.read_text(errors="replace") if file.is_file() else ""

    def _failed(self, what: str) -> LabError:
        said = (self.home / "qemu.log").read_text().splitlines() + self.console().splitlines()
        return LabError("\n".join([f"{self.name}: {what}; its console:", *said[-SHOWN:]]))


def start(name: str = "k-01", kept: Path | None = None) -> Machine:
    """Boot a new machine, or one from a disk that was kept, and wait for its SSH.

    What killed runs left goes first.
    """
    qemu.install()
    keys.make()
    clear()
    home(name).mkdir(parents=True, exist_ok=True)
    lock = taken(name)
    if lock is None:
        raise LabError(f"{name} is run by another process of this clone")
    machine = Machine(name, lock, kept)
    try:
        with step(f"booting {name}"):
            machine.wait()
    except BaseException:
        machine.remove()
        raise
    return machine


def home(name: str) -> Path:
    """Where a machine's files lie: its disk, what its console said, its pinned key."""
    return roster.STATE / "kernel" / name


def taken(name: str) -> IO[str] | None:
    """The machine's lock, held until it is closed or its process dies; None if another has it."""
    lock = (home(name) / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def clear() -> None:
    """Stop and delete the machines of this clone whose starter no longer lives."""
    for where in (roster.STATE / "kernel").glob("*"):
        lock = taken(where.name)
        if lock is not None:
            stop_orphan(where)
            shutil.rmtree(where, ignore_errors=True)
            lock.close()


def stop_orphan(where: Path) -> None:
    """Kill the qemu that a killed run left: the pid is its own only if its command line is."""
    try:
        pid = int((where / "qemu.pid").read_text())
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if os.fsencode(where / "qemu.pid") in words:
            os.kill(pid, signal.SIGKILL)
    except (OSError, ValueError):
        return


def write(image: Path, file: Path, path: str) -> None:
    """Write a private file of root's into a disk that nobody has mounted."""
    folder, _, name = path.rpartition("/")
    commands = [f'cd "{folder}"', f'write "{file}" {name}', f"sif {name} mode 0100600"]
    commands += [f"sif {name} uid 0", f"sif {name} gid 0"]
    done = run(["debugfs", "-w", image], stdin="\n".join(commands) + "\n")
    # It ends 0 whatever happens; its version is all it may say on stderr.
    said = [line for line in done.stderr.splitlines() if not line.startswith("debugfs 1.")]
    if said:
        raise LabError(f"{path} was not written to {image}: {said[0]}")
