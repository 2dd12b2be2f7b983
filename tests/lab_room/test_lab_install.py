"""What set-up installs, and what it does if apt is busy, refuses, or installs nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_node.lab import roster

SCRIPT = roster.REPOSITORY / "lab" / "install.sh"
CASES: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("install.yml").read_text(encoding="utf-8")
)
# `four` is what not every distribution has.
TABLE = (
    "# a comment\nlab\tone\tone\nlab\ttwo\ttwo\ntests\tthree\tthree\n"
    "lab\t/nowhere/a:/nowhere/b\tfour?\n"
)
# It fails with `error` as often as `times` has, and installs no command of the package in `broken`.
APT_GET = r"""#!/bin/sh
cd "${0%/*}" || exit
shift
echo "$*" >>calls
read -r left 2>/dev/null <times || left=0
if [ "$left" -gt 0 ]; then
    echo $((left - 1)) >times
    cat error >&2
    exit 100
fi
for word; do
    [ "$word" = "$(cat broken 2>/dev/null)" ] || cp apt-cache "./$word"
done
"""
PROGRAMS = {
    "apt-get": APT_GET,
    "apt-cache": "#!/bin/sh\n",
    "dpkg": '#!/bin/sh\nrm -f "${0%/*}/times"\n',
    "id": "#!/bin/sh\necho 0\n",
    "python3": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
}
USED = "awk cat cp dirname env grep head paste printf rm sleep sort tail tr sh"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine for root with only a few programs, and a script that looks in no other folder."""
    text = SCRIPT.read_text()
    for old, new in {":/usr/local/sbin:/usr/sbin:/sbin": "", "sleep 2": "sleep 0.01"}.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "install.sh").write_text(text)
    (tmp_path / "needs.tsv").write_text(TABLE)
    (tmp_path / "bin").mkdir()
    for name in USED.split():
        (tmp_path / "bin" / name).symlink_to(str(shutil.which(name)))
    for name, content in PROGRAMS.items():
        (tmp_path / "bin" / name).write_text(content)
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_set_up(machine: Path, case: dict[str, Any]) -> None:
    """A second run after one that has succeeded does nothing, and prints nothing."""

    def run() -> tuple[int, str, list[str]]:
        done = subprocess.run(
            ["/bin/sh", str(machine / "install.sh"), *case["run"].split()],
            env={"PATH": str(machine / "bin"), "LOCK_SECONDS": "20"},
            capture_output=True,
            text=True,
        )
        return done.returncode, done.stdout.strip(), done.stderr.splitlines()

    answers = {f"bin/{name}": str(case[name]) for name in ("error", "times") if name in case}
    for name, text in {**answers, **case.get("files", {})}.items():
        (machine / name).unlink() if text is None else (machine / name).write_text(text + "\n")
    code, stdout, lines = run()
    assert (code, stdout) == (case.get("code", 0), case.get("stdout", ""))
    says = case.get("says", [])
    assert len(lines) == len(says) and all(map(str.__contains__, lines, says)), lines
    file = machine / "bin" / "calls"
    calls = file.read_text().splitlines() if file.exists() else []
    wanted = f"install -y --no-remove --no-install-recommends {case.get('installs')}"
    assert calls[-1:] == ([wanted] if "installs" in case else [])
    if calls and code == 0:
        assert run() == (0, "", [])
        assert file.read_text().splitlines() == calls
