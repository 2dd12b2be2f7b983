"""The launch line of a job: which launcher, with which options, starts which program."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from gpu_node.drift.job.names import CONDA, TORCHRUN, UNKNOWN
from gpu_node.drift.job.words import (
    BETWEEN,
    EXPANDED,
    Command,
    Word,
    assigned,
    commands,
    texts,
    value,
)

DEEPSPEED, ACCELERATE = "deepspeed", "accelerate"
MPIRUN, SRUN, PYTHON = "mpirun", "srun", "python"
# A script that a launcher starts, and what starts a container.
SHELL, CONTAINER = "sh", "container"
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
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
# The options without a value; any other takes the word behind it.
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
    PYTHON: "u O B E I s S v q b i d P x",
}
# The other way: the options with a value, or with two.
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
# What starts another program: the options with a value, how many words of its own come first, and
# what it makes unknown.
_CONDA = ("conda", "mamba", "micromamba")
_PATH, _ENVIRONMENT = "the PATH and the variables behind sudo", "the environment of"
_BEFORE = {
    "sudo": ("u user g group h host p prompt C close_from D chdir R chroot T r t U", 0, _PATH),
    "env": ("u unset C chdir S split_string", 0, ""),
    **dict.fromkeys(("nohup", "command", "setsid", "unbuffer"), ("", 0, "")),
    "exec": ("a", 0, ""),
    "time": ("f format o output", 0, ""),
    "stdbuf": ("i input o output e error", 0, ""),
    "nice": ("n adjustment", 0, ""),
    "ionice": ("c class n classdata", 0, ""),
    "taskset": ("", 1, ""),
    "timeout": ("k kill_after s signal", 1, ""),
    "numactl": ("i interleave p preferred N cpunodebind C physcpubind m membind", 0, ""),
    **{f"{each} run": ("n name p prefix cwd", 0, _ENVIRONMENT) for each in _CONDA},
    "uv run": (
        "p python with with_requirements extra group env_file project directory package index",
        *(0, _ENVIRONMENT),
    ),
    "poetry run": ("C directory P project", 0, _ENVIRONMENT),
    "pipenv run": ("", 0, _ENVIRONMENT),
    "pdm run": ("p project", 0, _ENVIRONMENT),
    "pixi run": ("e environment manifest_path", 0, _ENVIRONMENT),
}
# The verbs that start a program in a container, and the flags in front of the image.
_DOCKER = (
    ("run", "exec"),
    "d detach i interactive t tty rm privileged init P publish_all read_only q quiet "
    "no_healthcheck oom_kill_disable",
)
_APPTAINER = (
    ("exec", "run"),
    "nv rocm c contain C containall e cleanenv w writable writable_tmpfs f fakeroot no_home u "
    "userns",
)
_CONTAINERS = {
    **dict.fromkeys(("docker", "podman", "nerdctl", "nvidia-docker"), _DOCKER),
    **dict.fromkeys(("singularity", "apptainer"), _APPTAINER),
}
_OPENING = {"if", "while", "until", "for", "case", "select", "{"}
_CLOSING = {"fi", "done", "esac", "}"}
_BEFORE_ONE = {"then", "do", "else", "elif", "!", *_OPENING - {"for", "case", "select"}}
_SETTING = {"export", "declare", "local", "readonly", "typeset"}
# What a shell puts into a word of a command line.
_EXPANDS = re.compile(r"\$\(.*|\$\{[^}]*\}?|\$\w*|`[^`]*`?", re.DOTALL)
_SET_BY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Files that set variables of their own alone, where one is read with `source`.
_OWN_ALONE = ("/conda.sh", "bashrc", "/modules.sh", "/etc/profile", "/setvars.sh", "/init/bash")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_ENDPOINT = re.compile(r"([^:]+|\[.*\])(?::([^:]*))?", re.DOTALL)
# The characters of a variable, the words of a command, and the shells in shells that are followed.
_LONGEST, _MOST, _DEEPEST = 8192, 2000, 8
_SBATCH = re.compile(r"^#SBATCH[ \t]+(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Launch:
    """A launch line. `program` is the word for the launcher, `python` the Python before it, if any.

    `variables` are those that the line, or its script, gives to the job. `prefix` is the Python
    environment that is activated, conda:NAME, or UNKNOWN, `folder` where the script goes first.
    `is_whole`: no word among the launcher's options is unknown as a whole. `unknown` has what else
    is unknown, in words. `is_inside`: it runs in a container. `inner`: what it starts.
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
    unknown: tuple[str, ...] = ()
    is_inside: bool = False
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
    def endpoint(self) -> tuple[str, str | None] | None:
        """Address and port of torchrun's --rdzv_endpoint; None where there is none, or no such."""
        match = _ENDPOINT.fullmatch(self.option("rdzv_endpoint") or "")
        return (match[1], match[2]) if match else None

    @property
    def is_job(self) -> bool:
        """Whether it may start several ranks: what a container starts is unknown."""
        return self.kind not in (PYTHON, SHELL) or self.is_inside

    @property
    def address(self) -> str | None:
        """The address at which the ranks meet, as the line gives it."""
        return self.endpoint[0] if self.endpoint else self.option(*_MASTER)

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
    plain = [
        word if _is_script(words[:at]) else _EXPANDS.sub(UNKNOWN, word)
        for at, word in enumerate(words)
    ]
    found = _launch(plain)
    if found is None or not found.is_job:
        raise NoLaunch(repr(" ".join(words)[:80]), "write the launcher first, behind --")
    return found


def _is_script(before: Sequence[str]) -> bool:
    """Whether the word behind these is a script: sh -c."""
    is_shell = any(posixpath.basename(word) in _SHELLS for word in before)
    return is_shell and bool(re.fullmatch("-[a-z]*c", before[-1]))


def of_script(text: str) -> Launch:
    """Return the one launch line of a script; raises NoLaunch and NotClosed."""
    launch = _one(_Shell(), text.replace(UNKNOWN, ""))
    if launch is None:
        raise NoLaunch("no launch line", "give the one line behind --")
    if launch.kind != SRUN:
        return launch
    return replace(launch, options={**_sbatch(text), **launch.options})


def _one(shell: _Shell, text: str) -> Launch | None:
    """Return the launch line of a script; raises NoLaunch where it has several, and NotClosed."""
    every = [each for each in map(shell.take, commands(text)) if each is not None]
    found = [each for each in every if each.is_job]
    if len(found) > 1:
        lines = ", ".join(str(each.line) for each in found[:8])
        words = f"{len(found)} launch lines, in lines {lines}"
        raise NoLaunch(words, "give the one line behind --", found[1].line)
    # What a launcher starts in a shell may be one process.
    found = found or (every if shell.within and len(every) == 1 else [])
    return found[0] if found else None


@dataclass
class _Shell:
    """What the commands of a script have set so far.

    `depth` is how many ifs and loops are open, `within` how many shells this one is in. `joint` is
    what stands before the command, and `perhaps` what is set only if what is before && succeeds.
    """

    values: dict[str, str] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    folder: str = ""
    prefix: str = ""
    environment: str = ""
    depth: int = 0
    within: int = 0
    joint: str = ""
    perhaps: set[str] = field(default_factory=set)

    @property
    def given(self) -> dict[str, str]:
        """The variables that a command gets."""
        return {name: self.values[name] for name in sorted(self.exported & self.values.keys())}

    def child(self) -> _Shell:
        """Return the shell that a command of this one starts."""
        return _Shell(self.given, set(self.exported), within=self.within + 1)

    def take(self, command: Command) -> Launch | None:
        """Take a command; return the launch that it is."""
        words = list(command.words)
        if not command.joint:
            self.values.update(dict.fromkeys(self.perhaps, UNKNOWN))
            self.perhaps.clear()
        self.joint = command.joint
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
        launch = _launch(plain, self)
        if launch is None:
            self._go(plain)
            return None
        given = dict.fromkeys(self.given, UNKNOWN) if _PATH in launch.unknown else self.given
        return replace(
            launch,
            variables={**given, **launch.variables},
            folder=below(self.folder, launch.folder),
            prefix=launch.prefix or self.prefix,
            unknown=(*launch.unknown, *([self.environment] * bool(self.environment))),
            line=command.line,
        )

    def _set(self, word: Word, is_exported: bool) -> None:
        found = assigned(word)
        name, more, parts = found or (value(word, self.values), "", None)
        if parts is not None:
            text = value(parts, self.values)
            if BETWEEN in text:
                items = text.split(BETWEEN)
                text = BETWEEN.join(UNKNOWN if EXPANDED.search(item) else item for item in items)
            text = self.values.get(name, "") + text if more else text
            # Whether an if was taken, or how often a loop ran, is unknown.
            is_same = self.values.get(name) == text
            if self.joint == "&&" and not is_same:
                self.perhaps.add(name)
            is_same = is_same or (self.depth == 0 and self.joint != "||")
            self.values[name] = text if is_same and len(text) <= _LONGEST else UNKNOWN
        if is_exported:
            self.exported.add(name)

    def _go(self, words: Sequence[str]) -> None:
        match words:
            case ["cd" | "pushd", *to]:
                folder = to[-1] if to else "~"
                is_known = self.depth == 0 and folder != "-"
                self.folder = below(self.folder, folder) if is_known else UNKNOWN
            case ["unset", *names]:
                self.values.update(dict.fromkeys(names, UNKNOWN))
            case ["printf", "-v", name, *_]:
                self.values[name] = UNKNOWN
            case ["read" | "mapfile" | "readarray" | "getopts" | "let", *names]:
                changed = (_SET_BY.match(name) for name in names)
                self.values.update({each[0]: UNKNOWN for each in changed if each})
            case ["conda" | "mamba" | "micromamba" | "source" | ".", "activate", *name]:
                self._activate(name[0] if name else "base")
            case ["source" | ".", path, *_] if path.endswith("/bin/activate"):
                self._activate(path.removesuffix("/bin/activate"))
            case ["source" | ".", path, *_] if not path.endswith(_OWN_ALONE):
                self.values = dict.fromkeys(self.values, UNKNOWN)

    def _activate(self, name: str) -> None:
        self.prefix = _prefix(name) if self.depth == 0 else UNKNOWN
        self.environment = "the environment that is activated" if self.prefix == UNKNOWN else ""


def _prefix(name: str) -> str:
    """Return the prefix of an environment that a path or a name of conda leads to."""
    if name.startswith("/") and UNKNOWN not in name:
        return name
    return f"{CONDA}{name}" if _NAME.fullmatch(name) else UNKNOWN


def below(folder: str, name: str) -> str:
    """Return the folder that a command goes to from another one; ~ is the home."""
    is_new = name.startswith("~") or not folder
    return name if is_new else posixpath.join(folder, name) if name else folder


def _sbatch(text: str) -> dict[str, str]:
    """Return the options that #SBATCH lines give to srun."""
    words = [word for line in _SBATCH.findall(text) for word in line.split()]
    return _of_srun(_options(words, _one_but(_FLAGS[SRUN]))[0])


def _of_srun(options: Mapping[str, str]) -> dict[str, str]:
    return {_LETTERS.get(name, name): each for name, each in options.items()}


def _launch(words: Sequence[str], shell: _Shell | None = None) -> Launch | None:
    """Return the launch that words are; None where they start something else."""
    made = Launch("", "")
    left = list(words)
    while left and (found := _before(left, made)):
        made, left = found
    if not left:
        return None
    child = (shell or _Shell()).child()
    child.values.update(made.variables)
    child.exported |= made.variables.keys()
    own = _of_program(left, child)
    return own and replace(
        own,
        variables={**made.variables, **own.variables},
        prefix=own.prefix or made.prefix,
        folder=below(made.folder, own.folder),
        unknown=(*made.unknown, *own.unknown),
    )


def _before(words: list[str], made: Launch) -> tuple[Launch, list[str]] | None:
    """Return what stands before a launcher, added to `made`, and the words behind it."""
    name, is_one, text = words[0].partition("=")
    if is_one and name.isidentifier():
        return replace(made, variables={**made.variables, name: text}), words[1:]
    base = posixpath.basename(words[0])
    both = f"{base} {words[1]}" if len(words) > 1 else ""
    known = next((each for each in (both, base) if each in _BEFORE), None)
    if known is None:
        return None
    valued, own, _ = _BEFORE[known]
    takes = valued.split()
    options, left, _ = _options(words[1 + (known == both) :], lambda name: int(name in takes))
    left = left[own:]
    if known == "env":
        left = [*_split(options.get("S", options.get("split_string", ""))), *left]
    return _changed(made, known, options), left


def _changed(made: Launch, known: str, options: Mapping[str, str]) -> Launch:
    """Return a launch with the folder, variables and environment of the command before it."""
    folders = ("chdir", "cwd", "directory", *(["C"] if known == "env" else []))
    for key in folders:
        made = replace(made, folder=below(made.folder, options.get(key, "")))
    unknown = _BEFORE[known][2]
    if known == "sudo":
        made = replace(made, prefix=UNKNOWN)
        if {"E", "preserve_env"} & options.keys():
            unknown = "the PATH behind sudo"
        else:
            made = replace(made, variables=dict.fromkeys(made.variables, UNKNOWN))
    elif unknown:
        names = [options[key] for key in ("p", "prefix", "n", "name") if key in options]
        is_conda = known.split()[0] in _CONDA
        made = replace(made, prefix=_prefix(names[0]) if is_conda and names else UNKNOWN)
        unknown = f"{unknown} {known}" if made.prefix == UNKNOWN else ""
    return replace(made, unknown=(*made.unknown, *([unknown] * bool(unknown))))


def _split(text: str) -> list[str]:
    """Return the words of env -S."""
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _of_program(words: Sequence[str], shell: _Shell) -> Launch | None:
    program, rest = words[0], list(words[1:])
    base = posixpath.basename(program)
    if _PYTHON.fullmatch(base) or (UNKNOWN in program and rest[:1] == ["-m"]):
        return _of_python(program, rest)
    if base in _SHELLS or base == "eval":
        return _of_shell(program, rest, shell)
    if rest and rest[0] in _CONTAINERS.get(base, ((), ""))[0]:
        return _in_container(program, rest, shell)
    if base == "accelerate" and rest[:1] == ["launch"]:
        return _of_launcher(ACCELERATE, program, rest[1:], shell)
    kind = _NAMES.get(base)
    return _of_launcher(kind, program, rest, shell) if kind else None


def _of_python(program: str, rest: list[str]) -> Launch:
    options, left, is_whole = _options(rest, _one_but(_FLAGS[PYTHON]), last=("m", "c"))
    module = options.get("m", "")
    if kind := _NAMES.get(module):
        return replace(_of_launcher(kind, module, left, _Shell()), python=program)
    is_module = "m" in options
    script, *arguments = [module, *left] if is_module else left or [""]
    given = tuple(arguments)
    return Launch(PYTHON, program, program, options, script, is_module, given, is_whole=is_whole)


def _of_shell(program: str, rest: list[str], shell: _Shell) -> Launch:
    """Return the launch of `sh -c TEXT`, or of a script whose commands are unknown."""
    is_text = program == "eval"
    while not is_text and rest and rest[0].startswith("-"):
        option = rest.pop(0)
        is_text = bool(re.fullmatch("-[a-z]*c", option))
        rest = rest[1:] if option.endswith("o") else rest  # -o pipefail
    script = " ".join(rest) if program == "eval" else next(iter(rest), "")
    is_followed = is_text and shell.within <= _DEEPEST
    if is_followed and (found := _one(shell, script)):
        return found
    unknown = "what a shell in it starts" if is_text or not script else f"what {script} starts"
    script = "" if is_text else script
    return Launch(SHELL, program, script=script, arguments=tuple(rest[1:]), unknown=(unknown,))


def _in_container(program: str, rest: list[str], shell: _Shell) -> Launch:
    """Return the launch in a container; the image's own program is unknown."""
    base = posixpath.basename(program)
    unknown = (f"what runs inside the container of {base} {rest[0]}",)
    _, left, _ = _options(rest[1:], _one_but(_CONTAINERS[base][1]))
    given = dict(_given(rest[: len(rest) - len(left)], {"-e", "--env"}))
    own = _launch(left[1:], _Shell(within=shell.within)) if left else None
    own = own or Launch(CONTAINER, program)
    variables = {**given, **own.variables}
    return replace(own, is_inside=True, unknown=(*unknown, *own.unknown), variables=variables)


def _of_launcher(kind: str, program: str, rest: Sequence[str], shell: _Shell) -> Launch:
    is_mpi = kind == MPIRUN
    takes = _taken_by_mpirun if is_mpi else _one_but(_FLAGS[kind])
    options, left, is_whole = _options(rest, takes, is_long=is_mpi)
    options = _of_srun(options) if kind == SRUN else options
    made = Launch(kind, program, options=options, is_whole=is_whole)
    if kind in (MPIRUN, SRUN):
        given = dict(_given(rest[: len(rest) - len(left)], {"-x"}))
        inner = _launch(left, shell)
        if inner and "container_image" in options:
            inside = "what runs inside the container of srun"
            inner = replace(inner, is_inside=True, unknown=(inside, *inner.unknown))
        made = replace(made, variables=given)
        if inner:
            made = replace(
                made,
                variables={**given, **inner.variables},
                folder=inner.folder,
                prefix=inner.prefix,
                unknown=inner.unknown,
                inner=inner,
            )
            left = []
    is_module = bool({"m", "module"} & options.keys())
    script, *arguments = left or [""]
    return replace(made, script=script, is_module=is_module, arguments=tuple(arguments))


def _taken_by_mpirun(name: str) -> int:
    return _VALUED.get(name, 0)


def _one_but(flags: str) -> Callable[[str], int]:
    """Return how many values an option of a program takes: one, but for its flags."""
    without = flags.split()
    return lambda name: int(name not in without)


def _given(words: Sequence[str], options: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that an option NAME=VALUE, or -genv NAME VALUE, gives to the job."""
    for at, word in enumerate(words):
        name, _, text = "".join(words[at + 1 : at + 2]).partition("=")
        if word in options and _:
            yield name, text
        elif word in ("-genv", "-env") and len(words) > at + 2:
            yield words[at + 1], words[at + 2]


def _options(
    words: Sequence[str],
    takes: Callable[[str], int],
    is_long: bool = False,
    last: Sequence[str] = (),
) -> tuple[dict[str, str], list[str], bool]:
    """Return the options at the beginning of words, the rest, and whether all are known.

    `takes` returns how many values an option has. `is_long`: one dash may begin a long name; else a
    letter may have the next one, or its value, behind it. No option follows one of `last`.
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
        if not is_long and not word.startswith("--") and len(word) > 2:
            name, text = word[1], word[2:]
            has_value = "=" if takes(name) else ""
            if not has_value:
                left, text = [f"-{text}", *left], ""
        most = takes(name)
        if not has_value and most:
            text, left = " ".join(left[:most]), left[most:]
        options[name] = text
        if name in last:
            break
    return options, left, is_whole
