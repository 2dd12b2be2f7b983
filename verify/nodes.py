"""What runs on each node: installs the job, checks Python, reads the ranks' output, cleans up."""

import base64
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from gpu_node.facts.probe.base import State
from gpu_node.facts.probe.bounds import in_words, read_json
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.owner import ENVIRONMENT_OWNER, OWNER
from gpu_node.facts.probe.process import PROCESS
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.shell import assigned
from gpu_node.verify.output import Look, whole

JOB = Path(__file__).with_name("job.py").read_text()
MARK = "@@gpu-node-verify "
# Importing PyTorch from a cold, shared disk takes up to a minute.
LOOK_SECONDS, END_SECONDS = 100, 30
SAME_MACHINE = "same machine as "
NAME_PYTHON = "set the Python: launcher: {python: ...} in the inventory, or --python"

_NUMBER = re.compile(r"[0-9]{1,6}")
# Runs $1 in a shell of the training user, $user, as a launcher starts it: with SSH_CLIENT set and
# SHLVL=0 bash reads ~/.bashrc, as under sshd. The SSH user's shell has already read it.
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
    """Return variables that keep imports from writing beside a library or into the user's home."""
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


# Ranks start in this folder, which identifies their processes, and with a time limit that ends
# them even if the controller is gone.
START = f"""
cd "$(dirname "$0")" || exit 1
TMPDIR=$PWD; export TMPDIR
export {" ".join(f'{name}="{value}"' for name, value in unwritten("$PWD").items())}
seconds=$1 limit=
shift
! timeout --version >/dev/null 2>&1 || limit="timeout -k 5 $seconds"
exec $limit "$@"
"""
_PREPARE = """
umask 077
why=$(mkdir "$dir" 2>&1) || {
  # Its name cannot be guessed: this user made it for another node of the run, perhaps just now.
  [ -s "$dir/node" ] || sleep 1
  [ -O "$dir" ] && read -r other <"$dir/node" && echo "$same_machine$other" && exit 0
  printf '%s\n' "$why" >&2
  exit 1
}
printf '%s\n' "$node" >"$dir/node" || exit 1
printf '%s' "$job" | base64 -d >"$dir/job.py" || exit 1
printf '%s' "$start" | base64 -d >"$dir/start.sh" || exit 1
found=$(command -v "${python:-python3}") || {
  echo 'does not exist, or is not in the PATH of a shell without a terminal'
  exit 0
}
if [ "$(id -u)" = 0 ]; then
  prefix=${found%/*}
  prefix=${prefix%/bin}
  owner=$(environment_owner "${prefix:-/}" "$found" all 2>&1) ||
    { printf '%s\\n' "$owner"; exit 0; }
  [ "$owner" = root ] || {
    echo "root does not run it because $owner may change it: train as $owner (launcher: {user: \
$owner}), or give it to root: chown -R root: $prefix"
    exit 0
  }
fi
set -- "$found" "$dir/job.py" look "$found" $names
output=$(LD_PRELOAD=$gn_preload sh "$dir/start.sh" "$seconds" "$@" 2>&1)
printf '%s\\n' "$output"
"""
# Finds the processes in the run's folder: ls and awk need one process each, readlink would need
# one for each pid. A folder's name may contain a line like those of ls, and a container may have
# its own folder of this name: each pid found is checked again, and must belong to this user and
# these namespaces. Without a whole list of processes nothing is removed: what is in the folder
# shows whose a process is.
_MINE = r"""
mine() {
  links=$(of_processes cwd ls -l 2>/dev/null) &&
    found=$(printf '%s\n' "$links" | awk -v dir="$dir" '{
      at = index($0, " -> "); path = substr($0, at + 4); link = substr($0, 1, at - 1)
      sub(/ \(deleted\)$/, "", path)
      if (path != dir && index(path, dir "/") != 1) next
      split(link, part, "/proc/"); print part[2] + 0
    }') || { echo 'the processes cannot be listed'; exit 1; }
  pids=
  for pid in $found; do
    [ -O "/proc/$pid" ] && [ "$(spaces "$pid")" = "$own" ] || continue
    case $(readlink "/proc/$pid/cwd") in
      ("$dir" | "$dir/"* | "$dir (deleted)") pids="$pids $pid" ;;
    esac
  done
}
spaces() { readlink "/proc/$1/ns/mnt"; readlink "/proc/$1/ns/pid"; }
own=$(spaces self)
"""
# Read before any process is killed: the other ranks would report the end of one as a failure.
_RANK_OUTPUT = r"""
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
# A killed rank leaves NCCL's segments behind; those that no other process has mapped are removed.
# Only plain files of this user in that one folder, whatever /proc/PID/maps contains.
_END = r"""
segments=
for try in 1 2 3 4 5 6 7 8 9 10; do
  mine
  [ -n "$pids" ] || break
  for pid in $pids; do
    segments="$segments $(
      awk '$6 ~ "^/dev/shm/nccl-[A-Za-z0-9_.-]+$" { print $6 }' "/proc/$pid/maps" 2>/dev/null)"
  done
  kill -9 $pids 2>/dev/null
  sleep 0.2 2>/dev/null || sleep 1
done
mine
for pid in $pids; do echo "left process $pid"; done
for segment in $(printf '%s\n' $segments | sort -u); do
  [ -f "$segment" ] && [ ! -L "$segment" ] && [ -O "$segment" ] || continue
  users=$(of_processes maps grep -l -s -F -e "$segment") && [ -z "$users" ] && rm -f "$segment"
done
[ ! -O "$dir" ] || rm -rf "$dir"
[ ! -e "$dir" ] || echo "left folder $dir"
"""


class RankOutput(State):
    """The output of a node's ranks, line by line; `problem` is why some of it is invalid.

    `exits` and `logs` belong to the commands of the launching node, by number.
    """

    ranks: tuple[dict[str, Any], ...] = ()
    exits: dict[int, int] = Field(default_factory=dict)
    logs: dict[int, tuple[str, ...]] = Field(default_factory=dict)
    problem: str = ""


def folder(run: str) -> str:
    """Return the folder of a run on every node; the run's name cannot be guessed."""
    return f"/tmp/gpu-node-verify-{run}"  # noqa: S108 (made with 0700, its name is random)


def look(run: str, user: str, python: str, names: Sequence[str], node: str = "") -> Section:
    """Return the section that writes the job to a node, by its name, and checks its Python."""
    given = assigned(
        dir=folder(run),
        node=node,
        job=base64.b64encode(JOB.encode()).decode(),
        start=base64.b64encode(START.encode()).decode(),
        python=python,
        names=" ".join(names),
        same_machine=SAME_MACHINE,
        seconds=LOOK_SECONDS - 5,
    )
    script = f"{OWNER}{ENVIRONMENT_OWNER}{given}{_PREPARE}"
    return Section("verify.look", as_trainer(user, script), seconds=LOOK_SECONDS)


def tries(run: str, python: str, seconds: int) -> str:
    """Return the script of a node's parent of tries.

    When that has ended, also because the controller is gone, it ends all else of the run there.
    """
    parent = f'sh "$dir/start.sh" {seconds} "$python" "$dir/job.py" tries'
    return f"{assigned(dir=folder(run), python=python)}{parent}\n{PROCESS}{_MINE}{_END}"


def rank_output(run: str, user: str) -> Section:
    """Return the section that prints the output of a run's ranks and commands so far."""
    script = f"{assigned(dir=folder(run))}{_RANK_OUTPUT}"
    return Section("verify.rank_output", as_trainer(user, script), seconds=END_SECONDS)


def end(run: str, user: str) -> Section:
    """Return the section that ends a run on a node and removes its files."""
    script = f"{assigned(dir=folder(run))}{PROCESS}{_MINE}{_END}"
    return Section("verify.end", as_trainer(user, script), seconds=END_SECONDS)


def as_trainer(user: str, script: str) -> str:
    """Return sh that runs a script as the training user; `user` is empty for the SSH user."""
    return f"user={shlex.quote(user)}\n{AS_TRAINER}as_trainer {shlex.quote(script)}"


def parse_look(text: str) -> Look:
    """Parse the job's line; raises Unreadable with the last line of the output instead."""
    lines = lines_of(text)
    answers = [line.removeprefix(MARK) for line in lines if line.startswith(MARK)]
    if not answers:
        output = [line for line in lines if line.strip()]
        raise Unreadable(output[-1].strip() if output else "no output")
    try:
        return Look.model_validate(read_json(answers[-1]))
    except ValueError as error:
        raise Unreadable(f"invalid answer: {in_words(error)}") from error


def parse_rank_output(text: str) -> RankOutput:
    """Parse lines of `rank JSON`, `exit N CODE` and `log N LINE`; other lines are ignored."""
    lines, exits = [], {}
    logs: dict[int, list[str]] = {}
    for line in lines_of(text):
        kind, _, rest = line.partition(" ")
        number, _, words = rest.partition(" ")
        if kind == "rank":
            lines.append(rest)
        elif kind == "exit" and _NUMBER.fullmatch(number):
            exits[int(number)] = int(words) if _NUMBER.fullmatch(words) else -1
        elif kind == "log" and _NUMBER.fullmatch(number):
            logs.setdefault(int(number), []).append(words)
    ranks, problem = whole(lines)
    found = {number: tuple(lines) for number, lines in logs.items()}
    return RankOutput(ranks=ranks, exits=exits, logs=found, problem=problem)


def parse_end(text: str) -> tuple[str, ...]:
    """Parse `left WHAT` lines: what could not be ended or removed."""
    lines = [line.partition(" ") for line in lines_of(text)]
    return tuple(rest for word, _, rest in lines if word == "left")
