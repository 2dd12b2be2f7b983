"""The launch line of a job: which launcher, with which options, starts which program."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from gpu_node.drift.job.words import UNKNOWN, Command, Word, assigned, commands, texts, value

DEEPSPEED, TORCHRUN, ACCELERATE = "deepspeed", "torchrun", "accelerate"
MPIRUN, SRUN, PYTHON = "mpirun", "srun", "python"
LAUNCHERS = (DEEPSPEED, TORCHRUN, ACCELERATE, MPIRUN, SRUN)
# How the others are named in PATH, or behind `python -m`.
_NAMES = {
    **dict.fromkeys(("deepspeed", "ds", "deepspeed.launcher.runner"), DEEPSPEED),
    **dict.fromkeys(("torchrun", "torch.distributed.run", "torch.distributed.launch"), TORCHRUN),
    **dict.fromkeys(("accelerate-launch", "accelerate.commands.launch"), ACCELERATE),
    **dict.fromkeys(("mpirun", "mpiexec", "orterun", "prterun", "mpiexec.hydra"), MPIRUN),
    "srun": SRUN,
}
_MASTER = ("master_addr", "main_process_ip")
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
# The options without a value; any other takes the word behind it. Of mpirun it is the other way.
_FLAGS = {
    DEEPSPEED: "no_ssh no_ssh_check force_multi no_local_rank no_python module m elastic_training "
    "save_pid bind_cores_to_rank disable_dynamic_batching_sync",
    TORCHRUN: "standalone m module no_python use_env run_path",
    ACCELERATE: "multi_gpu use_deepspeed use_fsdp use_megatron_lm use_xpu use_parallelism_config "
    "cpu tpu debug same_network no_python m module quiet q use_mps_device ipex "
    "tpu_use_cluster no_tpu_use_cluster tpu_use_sudo dynamo_use_fullgraph dynamo_use_dynamic "
    "enable_cpu_affinity",
    SRUN: "l label u unbuffered k no_kill v verbose pty exclusive overlap O overcommit s "
    "oversubscribe H hold I immediate Q quiet X disable_status E preserve_env",
    PYTHON: "u O OO B E I s S v q b bb",
}
# mpirun's with a value, or with two.
_OF_MPIRUN = (
    "np n c N npernode ppn H host hosts hostfile machinefile f x wdir wd prefix map_by bind_to "
    "rank_by tag genvlist path output_filename iface npersocket rsh timeout launcher"
)
_VALUED = {
    **dict.fromkeys(_OF_MPIRUN.split(), 1),
    **dict.fromkeys(("mca", "gmca", "pmixmca", "prtemca", "genv", "env"), 2),
}
# srun's letters.
_LETTERS = {"N": "nodes", "n": "ntasks", "w": "nodelist", "G": "gpus", "D": "chdir", "c": "cpus"}
# What starts another program, with how many words of its own that are no options.
_BEFORE = {"env": 0, "nohup": 0, "exec": 0, "time": 0, "command": 0, "setsid": 0, "stdbuf": 0}
_BEFORE |= {"numactl": 0, "timeout": 1}
_OPENING = {"if", "while", "until", "for", "case", "select", "{"}
_CLOSING = {"fi", "done", "esac", "}"}
_BEFORE_ONE = {"then", "do", "else", "elif", "!", *_OPENING - {"for", "case", "select"}}
_SETTING = {"export", "declare", "local", "readonly", "typeset"}
# The characters of a variable, and the words of a command, that are followed.
_LONGEST, _MOST = 8192, 2000
_SBATCH = re.compile(r"^#SBATCH[ \t]+(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Launch:
    """A launch line. `program` is the word for the launcher, `python` the Python before it, if any.

    `variables` are those that the line, or its script, gives to the job. `prefix` is the Python
    environment that the script activates, `folder` where it goes first. `is_whole`: no word among
    the launcher's options is unknown as a whole. `inner`: what it starts is a launcher, too.
    """

    kind: str
    program: str
    python: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    script: str = ""
    is_module: bool = False
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    prefix: str = ""
    line: int = 0
    is_whole: bool = True
    inner: Launch | None = None

    @property
    def innermost(self) -> Launch:
        """The launch that starts the job's own program."""
        return self.nested[-1]

    @property
    def nested(self) -> tuple[Launch, ...]:
        """This launch and those in it."""
        return (self, *(self.inner.nested if self.inner else ()))

    @property
    def address(self) -> str | None:
        """The address at which the ranks meet, as the line gives it."""
        endpoint = self.option("rdzv_endpoint")
        return endpoint.rpartition(":")[0] if endpoint else self.option(*_MASTER)

    def option(self, *names: str) -> str | None:
        """Return the value of the first of these options that is given; it may be unknown."""
        return next((self.options[name] for name in names if name in self.options), None)

    def count(self, *names: str) -> int | None:
        """Return a number that an option gives; None where it gives none, or an unknown one."""
        word = self.option(*names) or ""
        return int(word) if word.isascii() and word.isdecimal() and len(word) < 10 else None

    def is_unknown(self, *names: str) -> bool:
        """Whether an option has, or may have, a value that only the shell knows."""
        word = self.option(*names)
        return UNKNOWN in word if word is not None else not self.is_whole


class NoLaunch(ValueError):
    """Words that are no launch line; `line` is the one of the script, 0 for a command line."""

    def __init__(self, found: str, then: str, line: int = 0) -> None:
        super().__init__(found)
        self.found, self.then, self.line = found, then, line


def of_words(words: Sequence[str]) -> Launch:
    """Return the launch of a command line; what a shell would still expand in it is unknown."""
    plain = [re.sub(r"\$\{?\w*\}?|`", UNKNOWN, word) for word in words]
    found = _launch(plain)
    if found is None or found.kind == PYTHON:
        raise NoLaunch(repr(" ".join(words)[:80]), "write the launcher first, behind --")
    return found


def of_script(text: str) -> Launch:
    """Return the one launch line of a script; raises NoLaunch and NotClosed."""
    found = list(_launches(text))
    if len(found) != 1:
        lines = ", ".join(str(each.line) for each in found[:8])
        words = f"{len(found)} launch lines, in lines {lines}" if found else "no launch line"
        raise NoLaunch(words, "give the one line behind --", found[1].line if found else 0)
    launch = found[0]
    if launch.kind != SRUN:
        return launch
    return replace(launch, options={**_sbatch(text), **launch.options})


@dataclass
class _Shell:
    """What the commands of a script have set so far; `depth` is how many ifs and loops are open."""

    values: dict[str, str] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    folder: str = ""
    prefix: str = ""
    depth: int = 0

    def take(self, command: Command) -> Launch | None:
        """Take a command; return the launch that it is."""
        words = list(command.words)
        while words and (word := value(words[0], {})) in _BEFORE_ONE | _CLOSING | _OPENING:
            self.depth = max(self.depth + (word in _OPENING) - (word in _CLOSING), 0)
            if word in ("for", "case", "select"):
                self.values.update({value(each, {}): UNKNOWN for each in words[1:2]})
                return None
            words = words[1:]
        is_exported = bool(words) and value(words[0], {}) in _SETTING
        setting = words[1:] if is_exported else words
        if all(assigned(word) for word in setting) or is_exported:
            for each in setting:
                self._set(each, is_exported)
            return None
        plain = [*islice((text for word in words for text in texts(word, self.values)), _MOST)]
        launch = _launch(plain)
        if launch is None or launch.kind == PYTHON:
            self._go(plain)
            return None
        given = {name: self.values[name] for name in sorted(self.exported & self.values.keys())}
        return replace(
            launch,
            variables={**given, **launch.variables},
            folder=self.folder,
            prefix=self.prefix,
            line=command.line,
        )

    def _set(self, word: Word, is_exported: bool) -> None:
        found = assigned(word)
        name, more, parts = found or (value(word, self.values), "", None)
        if parts is not None:
            text = value(parts, self.values)
            text = self.values.get(name, "") + text if more else text
            # Whether an if was taken, or how often a loop ran, is unknown.
            is_same = self.depth == 0 or self.values.get(name) == text
            self.values[name] = text if is_same and len(text) <= _LONGEST else UNKNOWN
        if is_exported:
            self.exported.add(name)

    def _go(self, words: Sequence[str]) -> None:
        match words:
            case ["cd", folder]:
                self.folder = posixpath.join(self.folder, folder) if self.depth == 0 else UNKNOWN
            case ["unset", *names]:
                self.values.update(dict.fromkeys(names, UNKNOWN))
            case ["conda" | "mamba" | "micromamba" | "source" | ".", "activate", name]:
                self.prefix = name if self.depth == 0 else UNKNOWN
            case ["source" | ".", path, *_] if path.endswith("/bin/activate"):
                self.prefix = path.removesuffix("/bin/activate")


def _launches(text: str) -> Iterator[Launch]:
    shell = _Shell()
    for command in commands(text.replace(UNKNOWN, "")):
        if (launch := shell.take(command)) is not None:
            yield launch


def _sbatch(text: str) -> dict[str, str]:
    """Return the options that #SBATCH lines give to srun."""
    words = [word for line in _SBATCH.findall(text) for word in line.split()]
    return _options(words, _FLAGS[SRUN].split(), {})[0]


def _launch(words: Sequence[str]) -> Launch | None:
    """Return the launch that words are; None where they start something else."""
    variables: dict[str, str] = {}
    left = list(words)
    while left:
        name, is_one, text = left[0].partition("=")
        base = posixpath.basename(left[0])
        if is_one and name.isidentifier():
            variables[name] = text
            left = left[1:]
        elif _BEFORE.get(base, -1) >= 0:
            left = left[1:]
            while left and left[0].startswith("-"):
                left = left[1:]
            left = left[_BEFORE[base] :]
        else:
            break
    made = _of_program(left) if left else None
    return made and replace(made, variables={**variables, **made.variables})


def _of_program(words: Sequence[str]) -> Launch | None:
    program, rest = words[0], list(words[1:])
    base = posixpath.basename(program)
    if _PYTHON.fullmatch(base):
        return _of_python(program, rest)
    if base == "accelerate" and rest[:1] == ["launch"]:
        return _of_launcher(ACCELERATE, program, rest[1:])
    kind = _NAMES.get(base)
    return _of_launcher(kind, program, rest) if kind else None


def _of_python(program: str, rest: list[str]) -> Launch:
    options, left, is_whole = _options(rest, [*_FLAGS[PYTHON].split(), "m"], {})
    module = left[0] if "m" in options and left else ""
    if kind := _NAMES.get(module):
        return replace(_of_launcher(kind, module, left[1:]), python=program)
    script, *arguments = left or [""]
    is_module, given = "m" in options, tuple(arguments)
    return Launch(PYTHON, program, program, options, script, is_module, given, is_whole=is_whole)


def _of_launcher(kind: str, program: str, rest: Sequence[str]) -> Launch:
    flags = [] if kind == MPIRUN else _FLAGS[kind].split()
    options, left, is_whole = _options(rest, flags, _VALUED if kind == MPIRUN else {})
    if kind == SRUN:
        options = {_LETTERS.get(name, name): each for name, each in options.items()}
    made = Launch(kind, program, options=options, is_whole=is_whole)
    if kind in (MPIRUN, SRUN):
        given = dict(_given(rest[: len(rest) - len(left)]))
        inner = _launch(left)
        variables = {**given, **(inner.variables if inner else {})}
        made = replace(made, variables=variables, inner=inner)
        left = [] if inner else left
    is_module = bool({"m", "module"} & options.keys())
    script, *arguments = left or [""]
    return replace(made, script=script, is_module=is_module, arguments=tuple(arguments))


def _given(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that mpirun's -x NAME=VALUE and -genv NAME VALUE give to the job."""
    for at, word in enumerate(words):
        if word == "-x" and "=" in "".join(words[at + 1 : at + 2]):
            name, _, text = words[at + 1].partition("=")
            yield name, text
        elif word in ("-genv", "-env") and len(words) > at + 2:
            yield words[at + 1], words[at + 2]


def _options(
    words: Iterable[str], flags: Sequence[str], valued: Mapping[str, int]
) -> tuple[dict[str, str], list[str], bool]:
    """Return the options at the beginning of words, the rest, and whether all are known.

    With `valued` an option has that many values, without it one, unless it is one of `flags`.
    """
    options: dict[str, str] = {}
    left, is_whole = list(words), True
    while left and (left[0].startswith("-") or left[0] == UNKNOWN) and left[0] != "-":
        word = left.pop(0)
        if word == UNKNOWN:
            is_whole = False
            continue
        if word == "--":
            break
        name, has_value, text = word.lstrip("-").partition("=")
        name = name.replace("-", "_")
        if not has_value and not word.startswith("--") and name[1:].isdecimal() and not valued:
            name, has_value, text = name[0], "=", name[1:]  # -N2
        most = valued.get(name, 0) if valued else 0 if name in flags else 1
        if not has_value and most:
            text, left = " ".join(left[:most]), left[most:]
        options[name] = text
    return options, left, is_whole
