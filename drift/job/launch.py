"""The launch line of a job: which launcher, with which options, starts which program.

Its words are as a shell has expanded them. A script is not read, nor the text of `sh -c`.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpu_node.drift.job.launchers import Before, Launcher, Role, Sent, table
from gpu_node.drift.job.names import CONDA, UNKNOWN

SRUN, PYTHON, PDSH = "srun", "python", "pdsh"
# A script that a launcher starts, and what starts a container.
SHELL, CONTAINER = "sh", "container"
SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
# What mpirun gives so is a variable of Open MPI as well.
_MCA = ("--mca", "-mca", "--gmca", "-gmca", "--prtemca", "--pmixmca")
_HYDRA = {"-genv", "-env", "-genvlist", "-envlist", "-ppn", "-hosts", "-f", "-iface", "-launcher"}
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_ENDPOINT = re.compile(r"([^:]*|\[.*\])(?::([^:]*))?", re.DOTALL)


@dataclass(frozen=True)
class Launch:
    """A launch line. `program` is the word for the launcher, `python` the Python before it, if any.

    `options` have the launcher's own names. `variables` are those that the line gives to the job,
    `passed` the names of those that it passes on. `is_cut`: other variables do not reach the job.
    `prefix` is the Python environment that is activated, conda:NAME, or UNKNOWN, `folder` where the
    line goes first. `wrong` are options that the launcher does not have, each with the one that was
    meant, and `others` those of which it is unknown whether they have a value. `unknown` has what
    else is unknown, in words. `is_inside`: it runs in a container. `inner`: what it starts.
    `is_hydra`: it is the mpirun of MPICH or Intel, not that of Open MPI.
    """

    kind: str
    program: str
    python: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    script: str = ""
    is_module: bool = False
    arguments: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    passed: tuple[str, ...] = ()
    is_cut: bool = False
    folder: str = ""
    prefix: str = ""
    wrong: Mapping[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    is_inside: bool = False
    is_hydra: bool = False
    inner: Launch | None = None

    @property
    def row(self) -> Launcher:
        """The row of its launcher; an empty one for another program."""
        return table().launchers.get(self.kind) or Launcher(names=())

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
        """Address and port of a HOST:PORT where the ranks meet; None where there is no such."""
        named = self.role("endpoint")
        match = _ENDPOINT.fullmatch(named) if named else None
        return (match[1], match[2]) if match else None

    @property
    def starter(self) -> str:
        """What logs in to the other nodes and starts their ranks; empty where nothing does."""
        named = (self.role("starter") or self.row.defaults.get("starter", self.kind)).lower()
        is_other = named == "slurm" or "no_ssh" in self.options or not self.row.logs_in
        return "" if is_other else named

    @property
    def is_whole(self) -> bool:
        """Whether it is known which options the launcher gets."""
        return not self.others and not self.wrong

    @property
    def address(self) -> str | None:
        """The address at which the ranks meet, as the line gives it."""
        return self.endpoint[0] if self.endpoint else self.role("address")

    def option(self, *names: str) -> str | None:
        """Return the value of the first of these options that is given."""
        return next((self.options[name] for name in names if name in self.options), None)

    def role(self, *roles: Role) -> str | None:
        """Return the value of the first option that is given of those that have these roles."""
        return self.option(*(self.row.roles.get(role, "") for role in roles))

    def count(self, role: Role) -> int | None:
        """Return the number that the option of a role gives; the least of MIN:MAX.

        None where it gives none, or one that the launcher does not allow.
        """
        number = self.row.numbers.get(self.row.roles.get(role, ""))
        found = number.read((self.role(role) or "").partition(":")[0]) if number else None
        return found if found is not None and found >= 0 else None

    def is_unknown(self, *roles: Role) -> bool:
        """Whether an option is empty, as by a variable that is not set, or may be among others."""
        word = self.role(*roles)
        return not word if word is not None else not self.is_whole

    def sends(self, name: str) -> bool:
        """Whether the launcher gives a variable of the shell that starts it to all ranks."""
        named = self.role("exports")
        exported = (self.row.defaults.get("exports", "") if named is None else named).split(",")
        begun = self.row.sends.variables
        return name in (*self.passed, *exported) or "ALL" in exported or name.startswith(begun)

    @property
    def sent(self) -> Sent:
        """What else of that shell all ranks get."""
        is_all = self.role("exports") is None or self.sends("PATH")
        return self.row.sends.model_copy(update={"path": self.row.sends.path and is_all})


class NoLaunch(ValueError):
    """Words that are no launch line; `words` are those behind sudo, env and the like."""

    def __init__(self, found: str, words: Sequence[str]) -> None:
        super().__init__(found)
        self.words = words


def of_words(words: Sequence[str]) -> Launch:
    """Return the launch of a command line; raises NoLaunch."""
    try:
        found = _launch(words)
    except RecursionError:  # a thousand times srun
        found = None
    # It starts one process; what a container starts is unknown.
    if found is None or (found.kind in (PYTHON, SHELL) and not found.is_inside):
        raise NoLaunch(repr(" ".join(words)[:80]), _behind(words)[1])
    return found


def of_sbatch(text: str) -> dict[str, str]:
    """Return the options of the #SBATCH lines of a script: those before its first command."""
    row, given = table().launchers[SRUN], {}
    for line in text.split("\n"):
        if line.startswith("#SBATCH"):
            words = shlex.split(line.removeprefix("#SBATCH"), comments=True)
            given.update(row.options(words).given)
        elif line.strip() and not line.startswith("#"):
            break
    return given


def below(folder: str, name: str) -> str:
    """Return the folder that a command goes to from another one; ~ is the home."""
    is_new = name.startswith("~") or not folder
    return name if is_new else posixpath.join(folder, name) if name else folder


def _prefix(name: str) -> str:
    """Return the prefix of an environment that a path or a name of conda leads to."""
    if name.startswith("/"):
        return name
    return f"{CONDA}{name}" if _NAME.fullmatch(name) else UNKNOWN


def _behind(words: Sequence[str]) -> tuple[Launch, list[str]]:
    """Return what stands before a launcher, and the words behind it."""
    made, left = Launch("", ""), list(words)
    while left and (found := _before(left, made)):
        made, left = found
    return made, left


def _launch(words: Sequence[str]) -> Launch | None:
    """Return the launch that words are; None where they start something else."""
    made, left = _behind(words)
    own = _of_program(left) if left else None
    return own and replace(
        own,
        variables={**made.variables, **own.variables},
        is_cut=made.is_cut or own.is_cut,
        prefix=own.prefix or made.prefix,
        folder=below(made.folder, own.folder),
        unknown=(*made.unknown, *own.unknown),
    )


def _before(words: list[str], made: Launch) -> tuple[Launch, list[str]] | None:
    """Return what stands before a launcher, added to `made`, and the words behind it."""
    name, is_one, text = words[0].partition("=")
    if is_one and name.isidentifier():
        return replace(made, variables={**made.variables, name: text}), words[1:]
    base, verb = posixpath.basename(words[0]), "".join(words[1:2])
    row = next((r for r in table().before if base in r.names and r.verb in ("", verb)), None)
    if row is None:
        return None
    options, left, *_ = row.options(words[1 + bool(row.verb) :])
    left = left[row.words :]
    if base == "env":
        left = [*_split(options.get("S", options.get("split_string", ""))), *left]
    return _changed(made, row, base, options), left


def _changed(made: Launch, row: Before, base: str, options: Mapping[str, str]) -> Launch:
    """Return a launch with the folder, variables and environment of the command before it."""
    for key in row.folders:
        made = replace(made, folder=below(made.folder, options.get(key, "")))
    unknown = ""
    if base == "env" and {"i", "ignore_environment", "u", "unset"} & options.keys():
        made = replace(made, is_cut=True)
    if base == "sudo":
        made, unknown = replace(made, prefix=UNKNOWN), "the PATH behind sudo"
        if not {"E", "preserve_env"} & options.keys():
            variables = dict.fromkeys(made.variables, UNKNOWN)
            made = replace(made, variables=variables, is_cut=True)
            unknown = "the PATH and the variables behind sudo"
    elif row.environment:
        names = [options[key] for key in ("p", "prefix", "n", "name") if options.get(key)]
        is_named = row.environment == "conda" and names
        made = replace(made, prefix=_prefix(names[0]) if is_named else UNKNOWN)
        if made.prefix == UNKNOWN:
            unknown = f"the environment of {base} {row.verb}"
    return replace(made, unknown=(*made.unknown, *([unknown] * bool(unknown))))


def _split(text: str) -> list[str]:
    """Return the words of env -S."""
    try:
        return shlex.split(text)
    except ValueError:
        return []


def _of_program(words: Sequence[str]) -> Launch | None:
    program, rest = words[0], list(words[1:])
    base = posixpath.basename(program)
    if _PYTHON.fullmatch(base):
        return _of_python(program, rest)
    if base in SHELLS:
        return _of_shell(program, rest)
    if rest and any(base in row.names and rest[0] in row.verbs for row in table().containers):
        return _in_container(program, rest)
    for kind, row in table().launchers.items():
        if base in row.commands and rest[:1] == [row.commands[base]]:
            return _of_launcher(kind, program, rest[1:])
    kind = _kind(base)
    return _of_launcher(kind, program, rest) if kind else None


def _kind(name: str) -> str:
    return next((kind for kind, row in table().launchers.items() if name in row.names), "")


def _of_python(program: str, rest: list[str]) -> Launch:
    options, left, *_ = table().python.options(rest, last=("m", "c"))
    module = options.get("m", "")
    if kind := _kind(module):
        return replace(_of_launcher(kind, module, left), python=program)
    is_module = "m" in options
    script, *arguments = [module, *left] if is_module else left or [""]
    return Launch(PYTHON, program, program, options, script, is_module, tuple(arguments))


def _of_shell(program: str, rest: list[str]) -> Launch:
    """Return the launch of `sh -c TEXT`, or of a script: what it starts is unknown."""
    is_text = False
    while not is_text and rest and rest[0].startswith("-"):
        option = rest.pop(0)
        is_text = bool(re.fullmatch("-[a-z]*c", option))
        rest = rest[1:] if option.endswith("o") else rest  # -o pipefail
    script = "" if is_text else next(iter(rest), "")
    unknown = f"what {script or 'a shell in it'} starts"
    return Launch(SHELL, program, script=script, arguments=tuple(rest[1:]), unknown=(unknown,))


def _in_container(program: str, rest: list[str]) -> Launch:
    """Return the launch in a container; the image's own program is unknown."""
    base = posixpath.basename(program)
    row = next(each for each in table().containers if base in each.names)
    inside = f"what runs inside the container of {base} {rest[0]}"
    _, left, *_ = row.options(rest[1:])
    given = dict(_given(rest[: len(rest) - len(left)], {"-e", "--env"}))
    own = (_launch(left[1:]) if left else None) or Launch(CONTAINER, program)
    variables = {**given, **own.variables}
    unknown = (inside, *own.unknown)
    return replace(own, is_inside=True, is_cut=True, unknown=unknown, variables=variables)


def _of_launcher(kind: str, program: str, rest: Sequence[str]) -> Launch:
    row = table().launchers[kind]
    options, left, wrong, others = row.options(rest)
    made = Launch(kind, program, options=options, wrong=wrong, others=others)
    if row.starts_any:
        own = rest[: len(rest) - len(left)]
        exported = (each.partition("=") for each in (made.role("exports") or "").split(","))
        given = {name: text for name, is_one, text in exported if is_one}
        passes = {row.shown("variable")} if "variable" in row.roles else set()
        given |= dict(_given(own, passes))
        passed = tuple(name for at, name in enumerate(own) if {*own[at - 1 : at]} & passes)
        inner = _launch(left)
        if inner and {"container_image", "container_name"} & options.keys():
            inside = "what runs inside the container of srun"
            inner = replace(inner, is_inside=True, unknown=(inside, *inner.unknown))
        is_hydra = "hydra" in program or not _HYDRA.isdisjoint(own)
        made = replace(made, variables=given, passed=passed, is_hydra=is_hydra)
        if inner:
            made = replace(
                made,
                variables={**given, **inner.variables},
                is_cut=inner.is_cut,
                folder=inner.folder,
                prefix=inner.prefix,
                unknown=inner.unknown,
                inner=inner,
            )
            left = []
    script, *arguments = left or [""]
    return replace(made, script=script, is_module="module" in options, arguments=tuple(arguments))


def _given(words: Sequence[str], options: set[str]) -> Iterator[tuple[str, str]]:
    """Yield the variables that an option gives: NAME=VALUE, -genv NAME VALUE, --mca NAME VALUE."""
    for at, word in enumerate(words):
        name, is_one, text = "".join(words[at + 1 : at + 2]).partition("=")
        if word in options and is_one:
            yield name, text
        elif word in ("-genv", "-env", *_MCA) and len(words) > at + 2:
            yield f"{'OMPI_MCA_' * (word in _MCA)}{words[at + 1]}", words[at + 2]
