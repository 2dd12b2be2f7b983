"""The logins between 50 nodes on loopback: in the probe's section, and by OpenSSH alone."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from bench.measure.rounds import interleaved, ratio, wall
from bench.measure.run import Command, Failed, Taken
from bench.nodes.cluster import Login, Node, nodes
from bench.nodes.login_script import SECTION, login_scripts
from bench.nodes.probed import sections
from bench.nodes.sshd import serving
from bench.page.results import Logins
from bench.places import HERE

NODES, ROUNDS = 50, 3
_SSH = """\
#!/bin/sh
exec {program} -F {config} "$@"
"""
_HOST = """\
Host {name}
  HostName {address}
"""
_ALL = """\
Host *
  User {user}
  Port {port}
  IdentityFile {key}
  IdentitiesOnly yes
  UserKnownHostsFile {known_hosts}
  GlobalKnownHostsFile /dev/null
"""
_WORKED = re.compile(r"pair \S+ name 0 ?")


def compare(folder: Path = HERE / "logins", rounds: int = ROUNDS) -> Logins:
    """Measure the logins of all nodes, which begin at once, and as many plain ones, in turn.

    Raises Failed if a login does not work; NoServer, NoSshd.
    """
    hosts = nodes(NODES)
    with serving(folder / "sshd", hosts, None) as login:
        number = prepared(folder, hosts, login)

        def check(name: str, taken: Taken) -> None:
            if name == "mesh":
                require_all(answers(folder, hosts), number)

        commands = {"plain": _plain(folder), "mesh": _mesh(folder)}
        series = interleaved(commands, dict.fromkeys(commands, rounds), folder / "run", check)
    mesh, plain = series["mesh"], series["plain"]
    figures = [round(each, 3) for each in (wall(mesh), wall(plain), ratio(mesh, plain))]
    return Logins(NODES, number, *figures)


def prepared(folder: Path, hosts: Sequence[Node], login: Login) -> int:
    """Write each node's script, all logins, and an ssh that finds the nodes; return their number.

    The folder has a line of `nodes` for each node, and one of `logins` for each login.
    """
    scripts = login_scripts(hosts, login.port)
    for name, each in scripts.items():
        (folder / f"{name}.sh").write_text(each.sh)
    tried = [name for script in scripts.values() for name in script.names]
    for file, names in (("nodes", list(scripts)), ("logins", tried)):
        (folder / file).write_text("".join(f"{name}\n" for name in names))
    _write_ssh(folder, hosts, login)
    return len(tried)


def _write_ssh(folder: Path, hosts: Sequence[Node], login: Login) -> None:
    config = [_HOST.format(name=host.name, address=host.address) for host in hosts]
    (folder / "config").write_text("".join([*config, _ALL.format(**vars(login))]))
    program = folder / "bin" / "ssh"
    program.parent.mkdir(exist_ok=True)
    program.write_text(_SSH.format(program=shutil.which("ssh"), config=folder / "config"))
    program.chmod(0o755)


def _plain(folder: Path) -> Command:
    """Return all logins by OpenSSH alone, as many at a time as there are nodes."""
    return _at_once(folder, "logins", "ssh", "-n", "-o", "BatchMode=yes", "{}", "exit 0")


def _mesh(folder: Path) -> Command:
    """Return the scripts of all nodes, which begin at once; NODE.txt has what one prints."""
    return _at_once(folder, "nodes", "sh", "-c", 'exec sh "$1.sh" >"$1.txt"', "sh", "{}")


def _at_once(folder: Path, lines: str, *words: str) -> Command:
    """Return a command with each line of a file in place of {}; it fails where one of them does."""
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    many = ["xargs", "-a", lines, "-P", str(NODES), "-I", "{}"]
    return Command([*many, *words], folder, environment={"PATH": path})


def answers(folder: Path, hosts: Sequence[Node]) -> dict[str, str]:
    """Return what each node prints, by its name."""
    return {host.name: (folder / f"{host.name}.txt").read_text() for host in hosts}


def require_all(printed: dict[str, str], number: int) -> None:
    """Raise Failed if not so many logins have worked, each with a line in a readable answer."""
    count = 0
    for name, answer in printed.items():
        code, coding, text = sections(answer).get(SECTION, (1, "raw", "no answer"))
        lines = [line for line in text.splitlines() if not line.startswith("untried ")]
        bad = [line for line in lines if not _WORKED.fullmatch(line)]
        if code != 0 or coding != "raw" or bad:
            raise Failed(f"the logins of {name} ended with {code}: {' / '.join(bad[:3])}")
        count += len(lines)
    if count != number:
        raise Failed(f"{count} logins of {number} have a result")
