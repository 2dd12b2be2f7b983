"""wheels.sh, run for real in a Python environment: one NCCL wheel is left, and that one whole."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from pyinfra.api import StringCommand

from gpu_node.deploy.engine.scripts import script
from gpu_node.lab.machine import as_root
from tests import environments
from tests.environments import CU11, CU12, Environment
from tests.node_scripts import Ended, run_apart, until
from tests.shells import SHELLS

ORDERS = {"wrong one last": (CU12, CU11), "right one last": (CU11, CU12)}


@pytest.fixture(autouse=True)
def pip_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """pip asks the environment's own configuration, as on a node."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)


def command(
    made: Environment, *remove: str, keep: str = CU12, allow: str = "yes", pushed: str = ""
) -> str:
    """The script for an environment, as the operation yields it."""
    reported = script(
        "wheels",
        prefix=str(made.prefix),
        keep=keep,
        remove=" ".join(remove),
        pushed=pushed,
        allow=allow,
    )
    return reported.get_raw_value()


def repair(
    made: Environment, shell: str, *remove: str, keep: str = CU12, pushed: str = ""
) -> Ended:
    """Run it in a kind of shell."""
    done = subprocess.run(
        [*SHELLS[shell], "-c", command(made, *remove, keep=keep, pushed=pushed)],
        capture_output=True,
        text=True,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def is_whole(made: Environment) -> bool:
    """One distribution, the library is the wheel's byte for byte, and torch has that NCCL."""
    listed = [each for each in made.distributions.items() if each[0].startswith("nvidia-nccl")]
    with_same = environments.unpacked(CU12)
    return (
        listed == [("nvidia-nccl-cu12", "2.18.1")]
        and made.library.read_bytes() == with_same
        and made.imports_torch() == "21801"
    )


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_both_orders(tmp_path: Path, shell: str, order: tuple[str, str]) -> None:
    """Whichever came last, the right one alone is left, and whole."""
    made = environments.environment(tmp_path / "env", "torch", *order)
    done = repair(made, shell, "nvidia-nccl-cu11")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert is_whole(made)


def test_an_environment_of_uv(tmp_path: Path, shell: str) -> None:
    """It has no pip: that of its base repairs it, with the environment's own settings."""
    made = environments.environment(tmp_path / "env", "torch", CU12, CU11).without_pip()
    done = repair(made, shell, "nvidia-nccl-cu11")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert is_whole(made)
    (made.prefix / "pip.conf").write_text("[global]\nindex-url = http://192.0.2.1/\n")
    done = repair(made, shell, "nvidia-nccl-cu12", keep=CU11)
    assert done.code == 1 and "http://192.0.2.1/" in done.err and is_whole(made)


def test_after_a_common_wrong_repair(tmp_path: Path) -> None:
    """The file that pip uninstall took along is there again."""
    made = environments.environment(tmp_path / "env", "torch", CU12, CU11)
    made.pip("uninstall", "-q", "-y", "nvidia-nccl-cu11")
    assert repair(made, "dash").code == 0
    assert is_whole(made)


def test_another_version_of_the_right_wheel(tmp_path: Path) -> None:
    """Down to what torch was built for."""
    made = environments.environment(tmp_path / "env", "torch", "nvidia-nccl-cu12==2.20.5")
    assert repair(made, "dash").code == 0
    assert is_whole(made)


def test_no_wheel_at_all(tmp_path: Path) -> None:
    """As a run leaves it that was killed between the removal and the new one."""
    made = environments.environment(tmp_path / "env", "torch")
    assert repair(made, "dash").code == 0
    assert is_whole(made)


def test_what_cannot_be_had_leaves_all_as_it_was(tmp_path: Path) -> None:
    """Nothing is removed before the replacement is here."""
    made = environments.environment(tmp_path / "env", "torch", CU12, CU11)
    before = made.library.read_bytes()
    done = repair(made, "dash", "nvidia-nccl-cu11", keep="nvidia-nccl-cu12==2.99.9")
    assert done.code == 1
    assert "pip cannot get nvidia-nccl-cu12==2.99.9: " in done.err
    assert "nothing was changed" in done.err
    assert made.library.read_bytes() == before
    assert "nvidia-nccl-cu11" in made.distributions


def test_where_no_user_may_write(tmp_path: Path, shell: str) -> None:
    """As on a mount that is read-only: the owner is named, and pip is not called."""
    made = environments.environment(tmp_path / "env", "torch", *ORDERS["wrong one last"])
    before = f"mount --bind {made.prefix} {made.prefix} && mount -o remount,bind,ro {made.prefix}"
    done = run_apart(StringCommand(command(made, "nvidia-nccl-cu11")), shell, before)
    assert done.code == 1
    assert "root may not write there; its owner is root: look at its modes" in done.err


def test_no_python(tmp_path: Path) -> None:
    """A folder without one is named."""
    done = repair(Environment(tmp_path), "dash")
    assert (done.code, "it has no Python" in done.err) == (1, True)


@pytest.mark.parametrize("step", ["download", "uninstall", "install"])
def test_killed_at_any_point(tmp_path: Path, step: str) -> None:
    """The next run finishes, wherever the first one ended."""
    made = environments.environment(tmp_path / "env", "torch", CU12, CU11)
    slow = made.prefix / "bin" / "python3"
    real = slow.rename(slow.with_name("python-real"))
    slow.write_text(
        f'#!/bin/sh\n"{real}" "$@"; code=$?\n'
        f'case " $* " in *" {step} "*) touch "{tmp_path}/there"; sleep 30 ;; esac\nexit $code\n'
    )
    slow.chmod(0o755)
    running = subprocess.Popen(
        ["dash", "-c", command(made, "nvidia-nccl-cu11")], start_new_session=True
    )
    assert until((tmp_path / "there").exists)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    slow.unlink()
    real.rename(slow)
    remove = ["nvidia-nccl-cu11"] if "nvidia-nccl-cu11" in made.distributions else []
    assert repair(made, "dash", *remove).code == 0
    assert is_whole(made)


@pytest.mark.parametrize(
    "point",
    [
        "os.rename nvidia_nccl_cu12-2.18.1.dist-info",
        "open nvidia_nccl_cu12-2.18.1.dist-info/WHEEL",
        "os.rename nvidia_nccl_cu12-2.18.1.dist-info/INSTALLER",
        "os.rename nvidia_nccl_cu12-2.18.1.dist-info/RECORD",
    ],
)
def test_pip_is_killed(tmp_path: Path, point: str) -> None:
    """With it all that runs, as where the power fails: the next run leaves nothing of it."""
    made = environments.environment(tmp_path / "env", "torch", CU11, CU12)
    made.let_be_killed()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    killed = subprocess.run(
        ["dash", "-c", command(made, "nvidia-nccl-cu11")],
        env={**os.environ, "KILLED_AT": point, "TMPDIR": str(temporary)},
        start_new_session=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL
    assert list(temporary.iterdir()) == []
    remove = ["nvidia-nccl-cu11"] if "nvidia-nccl-cu11" in made.distributions else []
    assert repair(made, "dash", *remove).code == 0
    assert is_whole(made)
    assert made.left_by_pip() == []


def test_in_use(tmp_path: Path) -> None:
    """While a process has a libnccl mapped nothing is touched, and that process is named."""
    made = environments.environment(tmp_path / "env", "torch", CU12, CU11)
    code = f"import ctypes, time; ctypes.CDLL({str(made.library)!r}); print(1, flush=True)"
    words = [str(made.python), "-c", f"{code}; time.sleep(60)"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True) as job:
        assert job.stdout is not None and job.stdout.readline() == "1\n"
        argv = ["dash", "-c", command(made, "nvidia-nccl-cu11", allow="no")]
        done = as_root(argv, check=False)
        job.kill()
    assert done.returncode == 1
    assert (
        "in use by pid " in done.stderr
        and f"pid {job.pid} (" in done.stderr
        and f": {made.python} -c" in done.stderr
    )
    assert "--data allow_disruption=true" in done.stderr
    assert "nvidia-nccl-cu11" in made.distributions


@pytest.mark.parametrize("name", ["nvidia_nccl_cu11", "nvidia_nccl_cu12"])
def test_without_a_record(tmp_path: Path, name: str) -> None:
    """pip removes nothing without one: the wheel is replaced all the same."""
    made = environments.environment(tmp_path / "env", "torch", CU12, CU11)
    (record,) = made.packages.glob(f"{name}-*.dist-info/RECORD")
    record.unlink()
    done = repair(made, "dash", "nvidia-nccl-cu11")
    assert (done.code, done.err) == (0, "")
    assert is_whole(made)


@pytest.mark.parametrize("setting", ["user = true", "target = /nowhere", "require-hashes = true"])
def test_settings_of_pip_that_would_send_it_elsewhere(tmp_path: Path, setting: str) -> None:
    """Either the wheel is made whole, or nothing is changed."""
    made = environments.environment(tmp_path / "env", "torch", CU12, CU11)
    configuration = made.prefix / "pip.conf"
    configuration.write_text(configuration.read_text() + f"[install]\n{setting}\n")
    done = repair(made, "dash", "nvidia-nccl-cu11")
    assert (done.code, done.err) == (0, "")
    assert is_whole(made)


def test_a_link_in_place_of_the_library(tmp_path: Path) -> None:
    """It is replaced, and nothing is written to where it leads."""
    made = environments.environment(tmp_path / "env", "torch", CU12, CU11)
    made.library.unlink()
    made.library.symlink_to(tmp_path / "elsewhere.so")
    assert repair(made, "dash", "nvidia-nccl-cu11").code == 0
    assert is_whole(made) and not made.library.is_symlink()
    assert not (tmp_path / "elsewhere.so").exists()
