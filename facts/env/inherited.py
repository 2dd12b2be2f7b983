"""Processes that hand their environment on: terminals, servers of screen and tmux, trainers."""

from __future__ import annotations

import re
from typing import Literal

from facts.area import State
from facts.start_files import ENV_FILE

# Shells at a terminal, servers of screen and tmux, trainers: pid, when it began, what it is, then
# the variables it was started with; containers' processes are in another space of pids. `cat`
# passes over processes that end meanwhile.
PROCESSES = r"""
uid=$(id -u "$user") || exit 1
environ() { has=$({ tr '\0' '\n' <"/proc/$1/environ"; } 2>/dev/null); }
# One that is ending has no environment any more, and is there for a moment.
lives() {
  sleep 1
  state=$(sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
  case $state in [ZX]* | "") return 1 ;; esac
}
space=$(readlink /proc/self/ns/pid)
trainers=" "
written=$(at_home 'stat -L -c %Y "$home/.bashrc" ENV_FILE 2>/dev/null' | sort -n | tail -n 1)
echo "${written:-0}"
boot=$(awk '$1 == "btime" { print $2 }' /proc/stat)
cat /proc/[0-9]*/stat 2>/dev/null | awk -v boot="$boot" '
  { pid = $1; comm = $0; sub(/^[0-9]+ \(/, "", comm); rest = comm
    sub(/\)[^)]*$/, "", comm); sub(/.*\) /, "", rest); split(rest, field, " ") }
  comm ~ /^(bash|sh|zsh|fish|ksh|tcsh|dash)$/ && field[5] != 0 { tell("shell") }
  (comm ~ /^(screen|SCREEN)$/ && field[5] == 0) || comm ~ /^tmux: server/ { tell("server") }
  comm ~ /^(python|pt_main|deepspeed|accelerate|torchrun)/ { tell("trainer") }
  function tell(kind) {
    sub(/ /, "_", comm)
    told[pid] = pid " " field[2] " " int(boot + field[20] / 100) " " kind " " comm
  }
  # Oldest first: a trainer comes before the workers that it started.
  END {
    for (;;) {
      first = 0
      for (each in told) if (!first || each + 0 < first) first = each + 0
      if (!first) break
      print told[first]; delete told[first]
    }
  }
' | while read -r pid parent began kind comm; do
  case $trainers in *" $parent "*) continue ;; esac # a data loader's worker
  [ "$(awk '$1 == "Uid:" { print $2 }' "/proc/$pid/status" 2>/dev/null)" = "$uid" ] || continue
  [ "$(readlink "/proc/$pid/ns/pid")" = "$space" ] || continue
  environ "$pid" || { ! lives "$pid" || echo "$pid $began $kind $comm closed"; continue; }
  [ "$kind" != trainer ] || printf '%s\n' "$has" | grep -q -E '^(LOCAL_)?RANK=' || continue
  [ "$kind" != trainer ] || trainers="$trainers$pid "
  echo "$pid $began $kind $comm open"
  printf '%s\n' "$has" | awk -v names="$names" '
    BEGIN { wanted = "^(" names ")" }
    /^[A-Za-z_][A-Za-z0-9_]*=/ && $0 ~ wanted { gsub(/[^ -~]/, "?"); print "\t" $0 }'
done
""".replace("ENV_FILE", ENV_FILE)


class Process(State):
    """A process that hands its environment on; None where it may not be read.

    `older` tells that it began before ~/.bashrc was last written.
    """

    pid: int
    kind: Literal["shell", "server", "trainer"]
    command: str
    older: bool
    environment: dict[str, str] | None


def parse_processes(text: str) -> tuple[Process, ...]:
    """Parse ~/.bashrc's time, then `PID BEGAN KIND COMMAND open|closed` with tabbed variables."""
    first, *rows = text.split("\n")
    written = int(first)
    found: list[tuple[list[str], dict[str, str]]] = []
    for row in filter(None, rows):
        if row.startswith("\t"):
            name, _, value = row[1:].partition("=")
            found[-1][1][name] = value
        else:
            found.append((row.split(), {}))
    return tuple(_process(words, variables, written) for words, variables in found)


def _process(words: list[str], variables: dict[str, str], written: int) -> Process:
    pid, began, kind, command, access = words
    return Process.model_validate(
        {"pid": int(pid), "kind": kind, "command": re.sub("_", " ", command)}
        | {"older": int(began) < written, "environment": variables if access == "open" else None}
    )
