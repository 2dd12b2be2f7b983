"""What is run on each node: laying the job there, asking its Python, reading ranks, clearing up."""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from facts.area import State
from facts.probe import Section, Unreadable

JOB = Path(__file__).with_name("job.py").read_text()
MARK = "@@gpu-node-verify "
# Importing PyTorch takes a minute from a cold disk that is shared.
LOOK_SECONDS, END_SECONDS = 100, 30
NO_PYTHON = "no Python"
SAY_PYTHON = "say which Python: launcher: {python: ...} in the inventory, or --python"

# Runs $1 as a shell of the training user, $user, that a launcher starts: bash is made to believe
# that sshd started it, and reads ~/.bashrc then. The SSH user's own shell has read it already.
AS_TRAINER = """
me=$(id -un) || exit 1
user=${user:-$me}
as_trainer() {
  if [ "$user" = "$me" ]; then
    sh -c "$1"
  elif [ "$(id -u)" = 0 ]; then
    cd / && env -i PATH="$PATH" SSH_CLIENT='127.0.0.1 0 22' SHLVL=0 su -s /bin/bash "$user" -c "$1"
  else
    cd / && sudo -n -H -u "$user" env SSH_CLIENT='127.0.0.1 0 22' SHLVL=0 /bin/bash -c "$1"
  fi
}
"""


def unwritten(folder: str) -> dict[str, str]:
    """Return what keeps whoever imports from writing beside a library, or into the user's home."""
    caches = {
        "XDG_CACHE_HOME": "cache",
        "TRITON_HOME": "cache",
        "TRITON_CACHE_DIR": "cache/triton",
        "TORCHINDUCTOR_CACHE_DIR": "cache/inductor",
        "TORCH_EXTENSIONS_DIR": "cache/extensions",
        "CUDA_CACHE_PATH": "cache/cuda",
    }
    within = {name: f"{folder}/{path}" for name, path in caches.items()}
    return {"PYTHONDONTWRITEBYTECODE": "1", **within}


# What ranks are started in: their folder, which tells them from all other processes, and a limit
# on their time that holds even where nobody clears up any more.
START = f"""
cd "$(dirname "$0")" || exit 1
TMPDIR=$PWD; export TMPDIR
export {" ".join(f'{name}="{value}"' for name, value in unwritten("$PWD").items())}
seconds=$1 limit=
shift
! timeout --version >/dev/null 2>&1 || limit="timeout -k 5 $seconds"
exec $limit "$@"
"""
_LAY = """
umask 077
mkdir "$dir" || exit 1
printf '%s' "$job" | base64 -d >"$dir/job.py" || exit 1
printf '%s' "$start" | base64 -d >"$dir/start.sh" || exit 1
found=$(command -v "${python:-python3}") || { echo "NO_PYTHON"; exit 0; }
set -- "$found" "$dir/job.py" look "$found" $names
said=$(LD_PRELOAD=$gn_preload sh "$dir/start.sh" SECONDS "$@" 2>&1)
printf '%s\\n' "$said"
"""
# Processes in the run's folder, which nothing else knows the name of: ls and awk take one process
# each, where readlink would take one for each pid.
_MINE = r"""
mine() {
  ls -l /proc/[0-9]*/cwd 2>/dev/null | awk -v dir="$dir" '{
    at = index($0, " -> "); path = substr($0, at + 4); link = substr($0, 1, at - 1)
    sub(/ \(deleted\)$/, "", path)
    if (path == dir || index(path, dir "/") == 1) { split(link, part, "/proc/"); print part[2] + 0 }
  }'
}
"""
# Asked before anything is ended: of the end of one rank the others would tell as of a failure.
_TOLD = r"""
for file in "$dir"/*.rank; do
  [ ! -f "$file" ] || awk '{ print "rank " $0 }' "$file"
done
for file in "$dir"/exit.*; do
  [ ! -f "$file" ] || echo "exit ${file##*.} $(cat "$file")"
done
for file in "$dir"/log.*; do
  [ ! -f "$file" ] || tail -n 200 "$file" | tr -d '\r' | LC_ALL=C tr -c '\n -~' '?' |
    awk -v number="${file##*.}" '{ print "log " number " " $0 }'
done
"""
# A killed rank leaves NCCL's segments behind; they go with it where nobody else has them mapped.
_END = r"""
segments=
for try in 1 2 3 4 5 6 7 8 9 10; do
  pids=$(mine)
  [ -n "$pids" ] || break
  for pid in $pids; do
    segments="$segments $(awk '$6 ~ "^/dev/shm/nccl-" { print $6 }' "/proc/$pid/maps" 2>/dev/null)"
  done
  kill -9 $pids 2>/dev/null
  sleep 0.2 2>/dev/null || sleep 1
done
for pid in $(mine); do echo "left process $pid"; done
for segment in $(printf '%s\n' $segments | sort -u); do
  grep -q -s -F "$segment" /proc/[0-9]*/maps || rm -f "$segment"
done
rm -rf "$dir"
[ ! -e "$dir" ] || echo "left folder $dir"
"""


class Look(State):
    """What a node's Python has; `error` is why PyTorch cannot be imported there.

    `names` has the address that each node's name leads to there, `port` is free there.
    """

    python: str
    names: dict[str, str | None]
    port: int
    root: bool
    deepspeed: bool
    torch: str | None = None
    distributed: bool = False
    gpus: int = 0
    nccl: str | None = None
    error: str | None = None


class Told(State):
    """What a node's ranks said, line by line.

    `exits` and `logs` are of what the launching node started, by number.
    """

    ranks: tuple[dict[str, Any], ...] = ()
    exits: dict[int, int] = Field(default_factory=dict)
    logs: dict[int, tuple[str, ...]] = Field(default_factory=dict)


def folder(run: str) -> str:
    """Return where a run, of an unguessable name, keeps its files on every node."""
    return f"/tmp/gpu-node-verify-{run}"


def look(run: str, user: str, python: str, names: Sequence[str]) -> Section:
    """Return the section that lays the job on a node and asks the Python about itself."""
    given = {
        "dir": folder(run),
        "job": base64.b64encode(JOB.encode()).decode(),
        "start": base64.b64encode(START.encode()).decode(),
        "python": python,
        "names": " ".join(names),
    }
    body = _LAY.replace("NO_PYTHON", NO_PYTHON).replace("SECONDS", str(LOOK_SECONDS - 5))
    return Section("verify.look", as_trainer(user, _given(given) + body), seconds=LOOK_SECONDS)


def told(run: str, user: str) -> Section:
    """Return the section that tells what a run's ranks and commands have said so far."""
    script = f"{_given({'dir': folder(run)})}{_TOLD}"
    return Section("verify.told", as_trainer(user, script), seconds=END_SECONDS)


def end(run: str, user: str) -> Section:
    """Return the section that ends a run on a node, and removes it."""
    script = f"{_given({'dir': folder(run)})}{_MINE}{_END}"
    return Section("verify.end", as_trainer(user, script), seconds=END_SECONDS)


def as_trainer(user: str, script: str) -> str:
    """Return sh that runs a script as the training user; `user` is empty for the SSH user."""
    return f"user={shlex.quote(user)}\n{AS_TRAINER}as_trainer {shlex.quote(script)}"


def _given(values: dict[str, str]) -> str:
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())


def parse_look(text: str) -> Look:
    """Parse the job's line; raises Unreadable with what was said in its place."""
    lines = text.splitlines()
    told = [line.removeprefix(MARK) for line in lines if line.startswith(MARK)]
    if not told:
        said = [line for line in lines if line.strip()]
        raise Unreadable(said[-1].strip() if said else "it said nothing")
    return Look.model_validate(json.loads(told[-1]))


def parse_told(text: str) -> Told:
    """Parse lines of `rank JSON`, `exit N CODE` and `log N LINE`; others are nobody's."""
    ranks, exits = [], {}
    logs: dict[int, list[str]] = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        number, _, words = rest.partition(" ")
        if kind == "rank":
            ranks.append(rest)
        elif kind == "exit" and number.isdigit():
            exits[int(number)] = int(words or -1)
        elif kind == "log" and number.isdigit():
            logs.setdefault(int(number), []).append(words)
    return Told(
        ranks=tuple(_whole(ranks)),
        exits=exits,
        logs={number: tuple(lines) for number, lines in logs.items()},
    )


def parse_end(text: str) -> tuple[str, ...]:
    """Parse `left WHAT` lines, of what could not be ended or removed."""
    lines = [line.partition(" ") for line in text.splitlines()]
    return tuple(rest for word, _, rest in lines if word == "left")


def _whole(lines: list[str]) -> list[dict[str, Any]]:
    """The lines of JSON that were written to their end."""
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found
