"""How the command starts: what it imports, how long that takes, and Ctrl-C meanwhile."""

from __future__ import annotations

import ast
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import click
import pytest

from gpu_node.cli.commands import NAMES
from gpu_node.inventories.interrupt import LINE
from tests.commands import BIN, REPOSITORY, Ended, environment, run, start
from tests.test_rooms import MAY_IMPORT

START = """
import signal
signal.signal(signal.SIGINT, {handler})
from gpu_node.cli.main import main
main()
"""
# Stands where the first import finds it.
PRESSED = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n"
PATCHED = "from gevent import monkey\nexit(f'patched: {monkey.is_module_patched(\"socket\")}')\n"

# The signal comes after gevent's last look for one, and before the loop sleeps: kill(2) is the
# callback itself, so that no line of Python runs after it.
IN_THE_WINDOW = """
import ctypes, os, signal
from gpu_node.cli.loading import cooperate
cooperate()
import gevent
from gevent import subprocess
child = subprocess.Popen(["sleep", "20"])
last = gevent.get_hub().loop.prepare(ref=False, priority=-2)
last.start(ctypes.CDLL(None).kill, os.getpid(), int(signal.SIGINT))
try:
    child.wait()
except KeyboardInterrupt:
    last.stop()
    print("still there:", child.poll() is None, flush=True)
    child.kill()
    os._exit(0)
"""
HEAVY = {"pyinfra", "pyinfra_cli", "paramiko", "gevent", "rich", "pydantic", "jinja2", "yaml"}
MOST_SECONDS = 0.3
LIGHT = [
    "--help",
    "--version",
    *(f"{name} --help" for name in NAMES),
    "lab status --help",
    "no-such-command",
    "lab no-such-command",
    "drift",
    "drift no-such-file.py",
    "verify inventories/lab.py --size 8",
    "host-key inventories/labs.yml a100-01",
    "onboard 192.0.2.1 --inventory inventories/lab.yml",
    "onboard --inventory inventories/lab.yml",
]


def _started(
    folder: Path, handler: str, stand_in: str = "gevent", text: str = PRESSED
) -> subprocess.CompletedProcess[str]:
    """Start a command that talks to nodes, with a stand-in for a module that it imports."""
    (folder / f"{stand_in}.py").write_text(text)
    words = ["hostfile", "inventories/lab.py"]
    return subprocess.run(
        [sys.executable, "-c", START.format(handler=handler), *words],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": f"{folder}:{REPOSITORY}/src"},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("module", ["click", "gevent", "pyinfra"])
def test_it_ends_in_one_line(tmp_path: Path, module: str) -> None:
    """Ctrl-C during any import, of those of a help text and of those that talk to nodes."""
    done = _started(tmp_path, "signal.default_int_handler", module)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{LINE}\n")


def test_where_it_is_ignored_it_stays_so(tmp_path: Path) -> None:
    """The stand-in has nothing of gevent's, which is what ends it then."""
    done = _started(tmp_path, "signal.SIG_IGN")
    assert LINE not in done.stderr and "ImportError" in done.stderr


def test_it_is_seen_while_a_child_runs() -> None:
    """Also where it comes in the moment before gevent's loop sleeps, which nothing interrupts."""
    done = subprocess.run(
        [sys.executable, "-c", IN_THE_WINDOW], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("still there: True\n", "")


@pytest.mark.parametrize(
    "words",
    [
        ["gpu-node", "--version"],
        ["gpu-node", "drift", "--no-such-option"],
        ["pyinfra", "--version"],
        ["pyinfra", "-y", "inventories/none.py", "deploy/gpu_node.py"],
    ],
    ids=" ".join,
)
def test_the_installed_commands_start(words: list[str]) -> None:
    """They do by themselves what the other tests see in forks of one start."""
    assert start(*words) == run(*words)


# Notes that the process ends in which it was loaded; one that is replaced does not end.
PRELOADED = """
int creat(const char *path, unsigned mode);
__attribute__((destructor)) static void ended(void) { creat("%s", 0666); }
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PYTHONPATH", "LD_PRELOAD"])
def test_what_a_user_exports_for_a_job(tmp_path: Path, name: str) -> None:
    """Modules and libraries of a job are not in this program, nor in what it starts."""
    mark = tmp_path / "mark"
    (tmp_path / "click.py").write_text(f"open({str(mark)!r}, 'w')\nraise SystemExit(7)\n")
    words = ["cc", "-shared", "-fPIC", "-o", str(tmp_path / "job.so"), "-xc", "-"]
    subprocess.run(words, input=PRELOADED % mark, text=True, check=True)
    value = {"PYTHONPATH": str(tmp_path), "LD_PRELOAD": str(tmp_path / "job.so")}[name]
    done = subprocess.run(
        [BIN / "gpu-node", "--version"],
        env={**environment(), name: value},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, run("gpu-node", "--version").out, "")
    assert not mark.exists()


def _installed(folder: Path, *first: str) -> subprocess.CompletedProcess[str]:
    """Start the command from a folder that PYTHONPATH alone names, with other words first there."""
    script = folder / "bin/gpu-node"
    script.parent.mkdir()
    script.write_text("from gpu_node.cli.main import main\nmain()\n")
    path = os.pathsep.join([*first, str(folder)])
    return subprocess.run(
        [sys.executable, "-S", script, "--version"],
        env={**environment(), "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


def test_where_pythonpath_is_the_installation(tmp_path: Path) -> None:
    """As `pip install --target` and environment modules have it: program, packages, or both."""
    site = Path(click.__file__).parents[1]
    (tmp_path / "gpu_node").symlink_to(REPOSITORY / "src/gpu_node")
    done = _installed(tmp_path, str(site))
    assert (done.returncode, done.stdout, done.stderr) == (0, run("gpu-node", "--version").out, "")


def test_a_start_that_sets_a_variable_is_not_repeated(tmp_path: Path) -> None:
    """As a sitecustomize.py does that preloads an allocator into each program."""
    count = tmp_path / "count"
    setting = f"import os\nos.environ['LD_PRELOAD'] = ''\nopen({str(count)!r}, 'a').write('x')\n"
    script = tmp_path / "gpu-node"
    script.write_text(f"{setting}from gpu_node.cli.main import main\nmain()\n")
    words = [sys.executable, str(script), "--version"]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr, count.read_text()) == (0, "", "xx")


def test_the_module_is_the_command() -> None:
    """`python -m` runs it, and has its exit code."""
    words = ["drift", "--no-such-option"]
    done = subprocess.run(
        [sys.executable, "-m", "gpu_node.cli.main", *words],
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert Ended(done.returncode, done.stdout, done.stderr) == run("gpu-node", *words)


def test_sockets_are_cooperative_first(tmp_path: Path) -> None:
    """gevent has patched them when the first module is imported that talks to nodes."""
    done = _started(tmp_path, "signal.SIG_IGN", "paramiko", PATCHED)
    assert done.stderr == "patched: True\n"


def test_invoke_is_left_out_and_there_for_others(tmp_path: Path) -> None:
    """paramiko imports it where it is installed; an inventory of a user may need it."""
    text = (
        "import sys\n"
        "from gpu_node.cli.loading import loading\n"
        "with loading():\n"
        "    from gpu_node.inventories.connection.ssh_config import settings\n"
        "print('invoke' in sys.modules)\n"
        "print(settings('a', sys.argv[1])['user'])\n"
        "import invoke\n"
        "print(callable(invoke.run))\n"
    )
    (tmp_path / "config").write_text("Match exec true\nUser u\n")
    words = [sys.executable, "-c", text, str(tmp_path / "config")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.stdout.split() == ["False", "u", "True"], done


def test_areas_and_rules_are_imported_while_nodes_answer(tmp_path: Path) -> None:
    """Not before the first one is asked: here none is, as the inventory has a mistake."""
    file = tmp_path / "site.py"
    file.write_text(
        "import sys\nhosts = sorted(each for each in sys.modules if 'gpu_node' in each)\n"
    )
    text = (
        "import sys\n"
        "from gpu_node.cli import drift\n"
        f"sys.argv = ['drift', {str(file)!r}, '--limit', 'none']\n"
        "drift.drift(standalone_mode=False)\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert "gpu_node.drift.report.seen" in done.stderr, done
    assert "gpu_node.drift.engine" not in done.stderr
    assert "gpu_node.facts.node" not in done.stderr


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _seconds(*words: str | Path) -> float:
    """Return the processor time of one run; the wall's depends on who else is at work."""
    before = _children_seconds()
    subprocess.run(words, cwd=REPOSITORY, env=environment(), stdout=subprocess.DEVNULL, check=True)
    return _children_seconds() - before


def test_help_takes_little_more_than_python() -> None:
    """The least of several runs of each, one after the other."""
    runs = [
        (_seconds(sys.executable, "-c", "pass"), _seconds(BIN / "gpu-node", "--help"))
        for _ in range(5)
    ]
    bare, full = (min(each) for each in zip(*runs, strict=True))
    assert full - bare <= MOST_SECONDS


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_its_script(shell: str) -> None:
    """The page has the line for each shell; what a script asks is answered without the rooms."""
    source = f"_GPU_NODE_COMPLETE={shell}_source"
    page = REPOSITORY / "docs" / "how-to" / "shell-and-editor.md"
    assert f"{source} gpu-node" in page.read_text()
    done = subprocess.run(
        ["env", source, BIN / "gpu-node"], env=environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "_gpu_node_completion" in done.stdout and f"{shell}_complete" in done.stdout
    asked = {
        **environment(),
        "_GPU_NODE_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "gpu-node ch",
        "COMP_CWORD": "ch" if shell == "fish" else "1",
    }
    done = subprocess.run([BIN / "gpu-node"], env=asked, capture_output=True, text=True)
    assert "check" in done.stdout and "drift" not in done.stdout


# Prints what each of its arguments, the words of a command, has imported: in a fork for each.
IMPORTS = """
import os, sys
from gpu_node.cli.main import main
for line in sys.argv[1:]:
    if os.fork():
        os.wait()
        continue
    listed, null = os.dup(1), os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1), os.dup2(null, 2)
    sys.argv = ["gpu-node", *line.split()]
    try:
        main()
    except SystemExit:
        os.write(listed, " ".join([*sys.modules, "\\n"]).encode())
    os._exit(0)
"""


def test_what_asks_no_node_imports_no_heavy_package() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS, *LIGHT],
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
    )
    listed = [{each.partition(".")[0] for each in row.split()} for row in done.stdout.splitlines()]
    assert [row & {*HEAVY, "gpu_node", "click"} for row in listed] == [{"gpu_node", "click"}] * len(
        LIGHT
    ), done


def test_a_report_imports_no_operations_of_pyinfra() -> None:
    """They are a sixth of all imports, and a report runs none."""
    script = """
import sys
from gpu_node.cli.loading import loading
with loading():
    from gpu_node.cli import asking
    [*asking._importing()]
print(*(name for name in sys.modules if name.startswith("pyinfra.operations")))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    assert done.stdout.split() == []


def test_the_status_of_the_lab_imports_no_heavy_package() -> None:
    """Its imports alone: a test of the command would need the lab."""
    code = "import sys; from gpu_node.lab import nodes, prerequisites; print(*sys.modules)"
    listed = subprocess.check_output([sys.executable, "-c", code], cwd=REPOSITORY, text=True)
    assert {name.partition(".")[0] for name in listed.split()} & HEAVY == set()


def _imports(node: ast.AST, is_loading: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield the packages that a function imports, and whether it does so `with loading()`."""
    if isinstance(node, ast.With):
        is_loading |= any(ast.unparse(item.context_expr) == "loading()" for item in node.items)
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            yield str(child.module), is_loading
        elif isinstance(child, ast.Import):
            yield from ((alias.name, is_loading) for alias in child.names)
        yield from _imports(child, is_loading)


@pytest.mark.parametrize("name", sorted({*NAMES, "words"} - {"history", "lab"}))
def test_a_command_imports_what_talks_to_nodes_by_loading(name: str) -> None:
    """Of the rooms a body imports nothing before sockets are cooperative."""
    tree = ast.parse((REPOSITORY / "cli" / f"{name.replace('-', '_')}.py").read_text())
    bodies = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    imports = [[*_imports(body)] for body in bodies]
    assert any(imports)
    assert not [
        module
        for each in imports
        for module, _ in takewhile(lambda found: not found[1], each)
        if module.removeprefix("gpu_node.").partition(".")[0] in MAY_IMPORT
    ]
