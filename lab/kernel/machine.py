"""Starts a virtual machine on its own disk, and reads, saves and reboots it over SSH."""

import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

from gpu_node.lab import keys, roster
from gpu_node.lab.errors import LabError
from gpu_node.lab.kernel import disk, monitor, qemu, saved
from gpu_node.lab.machine import as_root, run
from gpu_node.lab.progress import step

ADDRESS = "127.0.0.1"
# An emulated processor takes half a minute from the BIOS to sshd.
BOOT_SECONDS = 240
# It takes five seconds, and many times that while other tests run.
RESTORE_SECONDS = 180
# The time limit of a script, on an emulated processor and while other tests run.
SCRIPT_SECONDS = 300
SHOWN = 40


class Machine:
    """A virtual machine, powered off; `boot` and `restore` start it."""

    def __init__(self, name: str, lock: IO[str], monitored: bool = False) -> None:
        self.name = name
        self.home = home(name)
        self.address = ADDRESS
        self.port = qemu.free_port()
        self.known_hosts = self.home / "known_hosts"
        self.key = self.home / disk.KEY
        self._locks = [lock]
        self._monitored = monitored
        self._ending = False
        self._process: subprocess.Popen[bytes] | None = None
        self._power: threading.Thread | None = None
        self._shared: subprocess.Popen[bytes] | None = None
        self._sockets = Path(tempfile.mkdtemp(prefix="gpu-node-lab-"))

    def prepare(self) -> None:
        """Give it the disks of the cache, which stay there as long as the machine runs."""
        self._locks.append(disk.in_use())
        self.kernels = disk.kernels()
        run(["cp", disk.place() / "boot.raw", self.home])
        keys.write_private(self.key, as_root(["cat", disk.place() / disk.KEY]).stdout)
        host_key = keys.public(disk.place() / disk.HOST_KEY)
        keys.write_private(self.known_hosts, f"[{self.address}]:{self.port} {host_key}\n")
        self._accelerator = qemu.accelerator(disk.place() / "vmlinuz")

    def boot(self, state: str, image: Path | None = None) -> None:
        """Boot a disk; the update runs after a second boot, as it does on a user's machine."""
        with step(f"booting {self.name}"):
            qemu.layer(self._disk, image or disk.place() / "root.raw")
            self._power_on()
            self.wait()
        if state == saved.BOOTED:
            with step(f"booting {self.name} into the update"):
                self.reboot()

    def restore(self, state: str) -> bool:
        """Continue a saved state, with the current time; return whether that worked."""
        folder = saved.place()
        if self._accelerator != qemu.EMULATED or not folder.is_dir():
            return False
        try:
            # A copy: another process may remove the saved states while this machine runs.
            run(["cp", saved.image(folder, state), self._disk])
            self._power_on(*monitor.restoring(saved.memory(folder, state)))
            self.wait(seconds=RESTORE_SECONDS)
        except LabError:
            self.cut()
            return False
        return True

    def save(self, state: str, folder: Path) -> None:
        """Write its memory and its disk as of one moment; then it continues."""
        assert self._process is not None
        self._share_no_more()
        with monitor.stopped(self._process, saved.memory(folder, state)):
            run(["cp", self._disk, saved.image(folder, state)])

    def _power_on(self, *options: str) -> None:
        self._ending = False
        self._process = self._powered_on(*options)
        self._power = threading.Thread(target=self._keep_power, args=[self._process], daemon=True)
        self._power.start()

    def _powered_on(self, *options: str) -> subprocess.Popen[bytes]:
        piped = subprocess.PIPE if self._monitored else None
        added = [*options, *(monitor.OPTIONS if self._monitored else [])]
        with (self.home / "qemu.log").open("a") as log:
            return subprocess.Popen(
                [*qemu.command(self.home, self.port, self._accelerator), *added],
                stdin=piped or subprocess.DEVNULL,
                stdout=piped or log,
                stderr=log,
            )

    def _keep_power(self, process: subprocess.Popen[bytes]) -> None:
        """Start qemu again when the machine resets, whatever rebooted it."""
        while _ended(process) == 0 and not self._ending:
            self._process = process = self._powered_on()

    @property
    def _disk(self) -> Path:
        return self.home / qemu.ROOT

    def run(self, script: str, seconds: float = SCRIPT_SECONDS) -> subprocess.CompletedProcess[str]:
        """Run a POSIX sh script as root in a separate SSH session; 255: no session."""
        try:
            return subprocess.run(
                [*self._ssh(), f"exec sh -c {shlex.quote(script)}"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise self._failed(f"a script did not end within {seconds:g} s") from None

    def _ssh(self, *more: str) -> list[str]:
        options = {
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": f'"{self.known_hosts}"',
            "GlobalKnownHostsFile": "/dev/null",
            "ConnectTimeout": "30",
            "ServerAliveInterval": "10",
            "LogLevel": "ERROR",
            "ControlPath": f'"{self._sockets}/ssh"',
        }
        settings = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        ssh = ["ssh", "-F", "none", "-i", str(self.key), "-p", str(self.port)]
        return [*ssh, *settings, *more, f"root@{self.address}"]

    def _share(self) -> None:
        """Keep one login open for all scripts: each costs an emulated processor two seconds."""
        self._share_no_more()
        self._shared = subprocess.Popen(
            self._ssh("-M", "-N"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _share_no_more(self) -> None:
        if self._shared is not None:
            self._shared.kill()
            self._shared.wait()
            self._shared = None
        (self._sockets / "ssh").unlink(missing_ok=True)

    def read(self, script: str, seconds: float = SCRIPT_SECONDS) -> str:
        """Return the output of a script, which must succeed, without the last newline."""
        done = self.run(script, seconds)
        if done.returncode != 0:
            raise LabError(f"{self.name}: a script ended {done.returncode}: {done.stderr.strip()}")
        return done.stdout.rstrip("\n")

    def boot_id(self) -> str:
        """The id of this boot; empty while there is no SSH."""
        return self.run("cat /proc/sys/kernel/random/boot_id", seconds=60).stdout.strip()

    def wait(self, before: str = "", seconds: float = BOOT_SECONDS) -> None:
        """Wait for SSH into another boot than the one `before`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self._is_on():
                raise self._failed("qemu ended")
            if self.boot_id() not in ("", before):
                self._share()
                self.set_clock()
                return
            time.sleep(0.5)
        raise self._failed(f"no SSH within {seconds:g} s")

    def set_clock(self) -> None:
        """Set it as NTP does; the time is sent into a session, as a login may take seconds."""
        script = 'echo ready; read -r now && date --set="@$now" >/dev/null'
        with subprocess.Popen(
            [*self._ssh(), script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as session:
            assert session.stdin is not None and session.stdout is not None
            if session.stdout.readline() == "ready\n":
                session.stdin.write(f"{time.time():.3f}\n")
                session.stdin.flush()
        if session.returncode != 0:
            raise self._failed("its clock cannot be set")

    def reboot(self) -> None:
        """Reboot as `systemctl reboot` does, and wait for the new boot."""
        before = self.boot_id()
        if not before:
            raise self._failed("no SSH to reboot it by")
        self.run("systemctl reboot")
        self.wait(before)

    def lose_power(self) -> None:
        """Let its power fail and come back: its disk has all that its kernel has written there."""
        assert self._process is not None
        self._share_no_more()
        # qemu ends at once, and successfully; a kill would take the map of the disk along.
        self._process.terminate()

    def remove(self) -> None:
        """Cut its power if it runs, and delete its disk; the console's log stays."""
        self.cut()
        shutil.rmtree(self._sockets, ignore_errors=True)
        for lock in self._locks:
            lock.close()

    def cut(self) -> None:
        """Cut its power, and delete its disk; it may be started again."""
        self._ending = True
        self._share_no_more()
        while self._power is not None and self._power.is_alive():
            if self._process is not None:
                self._process.kill()
            self._power.join(1)
        self._disk.unlink(missing_ok=True)

    def _is_on(self) -> bool:
        return self._power is not None and self._power.is_alive()

    def console(self) -> str:
        """All output of the BIOS, GRUB and the kernels."""
        return self._text("console.log")

    def _text(self, name: str) -> str:
        file = self.home / name
        return file.read_text(errors="replace") if file.is_file() else ""

    def _failed(self, what: str) -> LabError:
        log = self._text("qemu.log").splitlines() + self.console().splitlines()
        return LabError("\n".join([f"{self.name}: {what}; its console:", *log[-SHOWN:]]))


def _ended(process: subprocess.Popen[bytes]) -> int:
    with process:  # closes its pipes
        return process.wait()


def claim(name: str, monitored: bool = False) -> Machine:
    """A machine that is powered off; what killed runs left is removed first."""
    keys.make()
    clear()
    home(name).mkdir(parents=True, exist_ok=True)
    lock = taken(name)
    if lock is None:
        raise LabError(f"{name} is run by another process of this clone")
    try:
        machine = Machine(name, lock, monitored)
    except BaseException:
        lock.close()
        raise
    try:
        machine.prepare()
    except BaseException:
        machine.remove()
        raise
    return machine


def home(name: str) -> Path:
    """The folder of a machine's files: its disk, the console's log, its pinned key."""
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
