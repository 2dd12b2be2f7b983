"""A job put together: its line, its files and the nodes that it starts on."""

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpu_node.drift.engine.nodes import plain
from gpu_node.drift.engine.rule import Fault
from gpu_node.drift.engine.subject import FileLine, Path, Thing
from gpu_node.drift.job import configs
from gpu_node.drift.job.configs import ANY, Accelerate, DeepSpeed, Wrong, Zero
from gpu_node.drift.job.launch import CONTAINER, PYTHON, Launch
from gpu_node.drift.job.launchers import PORT, starts_any
from gpu_node.drift.job.names import (
    C10D,
    CONDA,
    CONFIG,
    DEEPSPEED,
    MASTER,
    NODES,
    STATIC,
    UNKNOWN,
)
from gpu_node.facts.job.state import JobState
from gpu_node.facts.probe.peers import Peer
from gpu_node.facts.probe.request import JobAsked
from gpu_node.facts.probe.words import is_file_name, is_host_name
from gpu_node.inventories.wanted import JobsWanted

_ENDS = "the launcher ends at its start with an error of its command line"
# What a launcher must read itself; a script may have options such as --config of its own.
_PLACED = ("nodes", "each", "ranks", "rank", "address", "port", "endpoint", "hostfile")
_RENDEZVOUS_PORT = 29400
# Keys of --rdzv_conf that say who opens the store, or that it is a file (c10d_rendezvous_backend).
_OWN_STORE = ("is_host", "store_type")
_CONFIGS = ("deepspeed_config", "deepspeed", "ds_config", "deepspeed_config_file")
_OUT = re.compile(r"output|out_|save|log|tensorboard|cache|tmp|temp|checkpoint|ckpt")
_IN = re.compile(r"resume|load|init|pretrained|input|data")
_OF_PATHS = re.compile(r"(^|_)(dir|path|file|folder|config)$")
_SUFFIX = re.compile(r"\.(py|json|jsonl|ya?ml|txt|csv|parquet|arrow|bin|pt|model|safetensors)$")
# What the program of the job may look for itself: files of these names.
_GLOB = re.compile(r"[*?]|\[[^\[\]]+\]")
_MOST_PATHS = 64
# Options by which the processes of accelerate meet in another way.
_MEETING = {"rdzv_backend", "rdzv_conf", "use_deepspeed", "cpu", "tpu", "mpirun_hostfile"}
_OVERSUBSCRIBES = re.compile("(?<!no)(?<!no_)oversubscribe", re.IGNORECASE)
_SLOTS = {
    "cause": "the launcher ends at its start (Open MPI: 'There are not enough slots available in "
    "the system'); a host of -H has one slot without a number",
    "fix": "name the slots: -H HOST:N, or slots=N in the hostfile; Open MPI has --oversubscribe",
}
# The one host that a launcher knows without a hostfile.
_LOCALHOST = "localhost"


@dataclass(frozen=True)
class Here:
    """What this process gives to the job: this machine is the node that starts it.

    `folder` is empty where another is named, `programs` are the paths in PATH, empty for what is
    not there.
    """

    folder: str
    programs: Mapping[str, str]
    variables: Mapping[str, str]


@dataclass(frozen=True)
class Given:
    """What a command knows of a job before any node is asked: its line, `folder` it starts in.

    `own` are the paths that this machine has, where another one starts the job.

    `config_name` is the DeepSpeed configuration that a person names, `config` its text, where it is
    of this machine. `folder` begins with / or ~, or is empty for the home; without one it is
    unknown, and so is what a relative path leads to. `unjudged` names what this process has that
    may not be the job's.
    """

    launch: Launch
    folder: str | None
    config: str | None = None
    config_name: str = ""
    here: Here | None = None
    unjudged: tuple[str, ...] = ()
    own: frozenset[str] = frozenset()

    @property
    def arguments(self) -> tuple[tuple[str, str], ...]:
        """The arguments of the job's own program: option and value; "" where one is missing.

        A path with * stands for files that the program, or a shell, looks for: it is unknown, and
        so is a text that can be no name.
        """

        def is_unknown(name: str, text: str) -> bool:
            return not is_file_name(text) or bool(_GLOB.search(text) and _is_path(name, text))

        pairs = _pairs(self.launch.innermost.arguments)
        return tuple((name, UNKNOWN if is_unknown(name, text) else text) for name, text in pairs)

    @property
    def is_inside(self) -> bool:
        """Whether the job's own program runs in a container, with other files and programs."""
        return any(each.is_inside for each in self.launch.nested)

    def argument(self, *names: str) -> str | None:
        """Return the value of the first of these arguments; None where it is not known."""
        found = [text for name, text in self.arguments if name in names]
        return found[-1] if found and UNKNOWN not in found[-1] else None

    def variables(self, is_launcher: bool) -> Mapping[str, str]:
        """Return the variables of the ranks on the node that starts the job, or on another."""
        launch = self.launch
        own = self.here.variables if self.here and not launch.is_cut else {}
        sent = {name: text for name, text in own.items() if is_launcher or launch.sends(name)}
        return {**sent, **launch.variables}

    def is_clear(self, path: str, is_launcher: bool) -> bool:
        """Whether it is known where a path leads on the node that starts the job, or on another.

        The folder of this process is another node's only if the launcher sends it.
        """
        is_named = not (self.here and self.here.folder) or self.launch.sent.folder
        return is_launcher or is_named or (path[0] in "/~" and path != self.folder)

    def missing(self, path: str) -> str:
        """Return that a node lacks a path: where it was looked for, and whether it is here."""
        is_below = path[0] not in "/~" and self.folder is not None
        folder = f" in {self.folder or '~'}" * is_below
        return f"missing{folder}{'; this machine has one' * (path in self.own)}"

    def program(self, name: str, is_launcher: bool) -> str:
        """Return what a program of the line is on a node: its path, where this PATH counts."""
        is_known = self.here and (is_launcher or self.launch.sent.path)
        return self.here.programs.get(name, name) if self.here and is_known else name

    @property
    def hostfile(self) -> str:
        """The hostfile of the launcher; empty where it reads none."""
        named = self.launch.role("hostfile")
        if self.launch.is_inside:
            return ""
        return (
            self._known(named)
            if named is not None
            else self.launch.row.defaults.get("hostfile", "")
        )

    @property
    def odd_script(self) -> str:
        """The program of a launcher with a hostfile, where it is no file.py: it may be that one."""
        launch, row = self.launch, self.launch.row
        is_python = launch.script.endswith(".py") or launch.is_module or self.is_inside
        is_other = is_python or "no_python" in launch.options or row.starts_any or not row.logs_in
        return "" if is_other else self._known(launch.script)

    @property
    def is_deepspeed(self) -> bool:
        return self.launch.kind == DEEPSPEED

    @property
    def accelerate_file(self) -> str:
        """The configuration that accelerate reads; empty where it is not the launcher."""
        launch = self.launch.innermost
        if self.is_inside:
            return ""
        named = launch.role("config")
        return self._known(named) if named is not None else launch.row.defaults.get("config", "")

    @property
    def config_file(self) -> str:
        """The DeepSpeed configuration on the nodes: the given one, or that of the line."""
        named = self.config_name or self._known(self.argument(*_CONFIGS))
        named = named or self._known(self.launch.innermost.option(*_CONFIGS))
        is_file = "." in named or "/" in named
        return named if is_file and (self.config_name or not self.is_inside) else ""

    def config_of(self, accelerate: Accelerate | None) -> str:
        """The DeepSpeed configuration on the nodes: `config_file`, or that of accelerate's."""
        part = accelerate.deepspeed_config if accelerate else None
        return self.config_file or (part and part.deepspeed_config_file) or ""

    @property
    def paths(self) -> dict[str, bool]:
        """The folder of the job and the paths in the line, and whether the job writes there."""
        launch = self.launch.innermost
        paths = {self.folder: False} if self.folder else {}
        is_path = not launch.row.starts_any or "/" in launch.script
        if launch.script and is_path and not launch.is_module and not self.is_inside:
            paths[launch.script] = False
        if self.config_file and self.config is None:
            paths[self.config_file] = False
        for name, text in self.arguments:
            if not self.is_inside and _is_path(name, text):
                paths.setdefault(text, bool(_OUT.search(name)) and not _IN.search(name))
        known = {path: out for path, out in paths.items() if self._known(path)}
        return dict([*known.items()][:_MOST_PATHS])

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs of the line that a shell looks for: launcher, or the Python before it."""
        outside = [each for each in self.launch.nested if not each.is_inside]
        is_first = self.launch.is_inside or self.launch.kind == CONTAINER
        names = [] if is_first else [self._program(each.python or each.program) for each in outside]
        return tuple(dict.fromkeys(name for name in names if name and is_file_name(name)))

    def _program(self, name: str) -> str:
        prefix = self.launch.prefix
        if "/" in name:
            return posixpath.join(self.folder or "", self._known(name))
        # An environment's program comes first in PATH once it is activated.
        is_in = prefix.startswith(("/", CONDA)) and not starts_any(name)
        return f"{prefix}/bin/{name}" if is_in else "" if prefix else name

    def asked(self) -> JobAsked:
        """Return what the nodes are asked about the job."""
        address = self.launch.innermost.address
        config = "" if self.config else self.config_file
        files = (self.hostfile, self.accelerate_file, config, self.odd_script)
        names = [*self._listed(), *([address] if address else [])]
        found = [each for each in self.here.programs.values() if each] if self.here else []
        return JobAsked(
            folder=self.folder or "",
            hostfile=self.hostfile,
            files=tuple(dict.fromkeys(each for each in files if each and is_file_name(each))),
            paths=tuple(self.paths),
            programs=tuple(dict.fromkeys((*self.programs, *filter(is_file_name, found)))),
            names=tuple(dict.fromkeys(filter(is_host_name, names))),
        )

    def _known(self, path: str | None) -> str:
        """Return a path if it is known where it leads, else nothing."""
        if not path or not is_file_name(path):  # UNKNOWN is in no name
            return ""
        return path if path[0] in "/~" or self.folder is not None else ""

    def _listed(self) -> list[str]:
        """Return the hosts in the line: mpirun's -H, srun's --nodelist."""
        named = self.launch.role("hosts") or ""
        if "[" in named:
            return []
        hosts = (entry.partition(":")[0] for entry in named.split(",") if entry)
        return [host.rpartition("@")[2] for host in hosts]


@dataclass
class Job:
    """A job on the nodes of an inventory.

    `members` are the nodes that it starts on, the first of them first, with the number of ranks on
    each; None: unknown. `launcher` is the node that starts it. `faults` are what reading its files
    has found, by the id of the rule that reports it.
    """

    given: Given
    launcher: str
    members: Mapping[str, int | None] = field(default_factory=dict)
    # The GPUs that the line names on a node, by number.
    gpus: dict[str, Sequence[int]] = field(default_factory=dict)
    config: DeepSpeed | None = None
    accelerate: Accelerate | None = None
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    # The files of the launching node that were read, and those that were not, with the reason.
    read: Sequence[str] = ()
    unread: list[str] = field(default_factory=list)
    # What the line names of an environment of conda that was not found there.
    unfound: Sequence[str] = ()
    # The user as whom a hostfile lets the ranks of a node run, where it names one.
    users: dict[str, str] = field(default_factory=dict)
    # The nodes to which its launcher logs in by name: a hostfile may have addresses.
    named: set[str] = field(default_factory=set)

    @property
    def world(self) -> int | None:
        """How many ranks there are in all; None where it is unknown."""
        counts = [count for count in self.members.values() if count is not None]
        return sum(counts) if counts and len(counts) == len(self.members) else None

    @property
    def backend(self) -> str:
        """How torchrun's ranks meet; empty: unknown. Others than STATIC, C10D have a server."""
        named = self.given.launch.innermost.role("backend")
        if named is not None:
            return named
        return str((self.accelerate and self.accelerate.rdzv_backend) or STATIC)

    @property
    def master(self) -> tuple[str | None, int | None]:
        """Address and port at which the ranks meet; None: unknown, or the launcher chooses."""
        launch, file = self.given.launch.innermost, self.accelerate or Accelerate()
        conf = launch.option("rdzv_conf") or ""
        if self.backend not in (STATIC, C10D) or any(key in conf for key in _OWN_STORE):
            return None, None
        port = file.main_process_port or PORT.read(launch.row.defaults.get("port", ""))
        if launch.role("port") is not None:
            port = launch.count("port")
        if launch.endpoint:
            text = launch.endpoint[1]
            port = _RENDEZVOUS_PORT if text is None else PORT.read(text)
        # Port 0 is any free one, which the other nodes do not know.
        is_free = launch.role("alone") is not None or (port == 0 and len(self.members) == 1)
        return launch.address or file.main_process_ip, None if is_free else port

    @property
    def config_name(self) -> str:
        """The DeepSpeed configuration, as a person finds it."""
        return self.given.config_of(self.accelerate)

    @property
    def precision(self) -> str | None:
        """The number format that its files and its line say; None: neither does."""
        found = self.config.precision if self.config else None
        if found is None and self.accelerate and self.accelerate.mixed_precision != "no":
            found = self.accelerate.mixed_precision
        word = self.given.launch.innermost.option("mixed_precision")
        word = word or self.given.argument("mixed_precision")
        found = word if word in ("bf16", "fp16", "fp8") else found
        for name in ("fp8", "bf16", "fp16"):
            text = self.given.argument(name)
            if text is not None and text.lower() in ("", "true", "1"):
                found = name
        return found

    @property
    def has_flash_attention(self) -> bool:
        """Whether an argument asks for flash-attn 2."""
        return any(
            ("flash_att" in name and text.lower() in ("", "true", "1"))
            or text == "flash_attention_2"
            for name, text in self.given.arguments
        )

    def wanted(self, jobs: JobsWanted | None) -> JobsWanted:
        """Return what the job asks of its nodes; `jobs` of the inventory for what no file says."""
        zero = (self.config.zero_optimization or Zero()).stage if self.config else None
        offload = self.config.offload if self.config else None
        if self.config is None and self.accelerate is not None:
            part = self.accelerate.deepspeed_config
            zero, offload = part.zero_stage, part.offload_optimizer_device
        stated = {
            "precision": self.precision,
            "flash_attention": self.has_flash_attention or None,
            "zero": zero,
            "offload": "cpu" if offload == "cpu" else None if zero is None else "none",
        }
        made = (jobs or JobsWanted()).model_copy(
            update={name: each for name, each in stated.items() if each is not None}
        )
        # What is on NVMe has no estimate, nor what is unknown.
        return made.model_copy(update={"zero": None}) if offload in ("nvme", "auto") else made


def job_of(
    given: Given, launcher: str, states: Mapping[str, JobState], peers: Iterable[Peer]
) -> Job:
    """Return a job, of the answers of the nodes that could be asked; `launcher` may lack one."""
    job = Job(given, launcher)
    _Making(job, given, launcher, states.get(launcher, JobState()), tuple(peers)).fill()
    return job


@dataclass
class _Making:
    job: Job
    given: Given
    launcher: str
    state: JobState
    peers: tuple[Peer, ...]

    def fill(self) -> None:
        """Read the files of the job, and with them who its members are and what is wrong."""
        job, state = self.job, self.state
        job.accelerate = self._accelerate()
        job.config = self._config()
        self._no_script()
        self._numbers()
        job.members = self._members()
        self._no_address(len(job.members))
        job.read = [each.path for each in state.files or () if not each.problem]
        job.unfound = [
            each.name
            for each in state.programs or ()
            if each.name.startswith(CONDA) and not each.path
        ]

    def _no_address(self, nodes: int) -> None:
        """Keep as a fault that accelerate, whose file is known, has no address for torch.

        accelerate/utils/launch.py, prepare_multi_gpu_env: its text has main_process_ip unchecked.
        """
        launch, path = self.given.launch.innermost, self.given.accelerate_file
        found = next((each for each in self.state.files or () if each.path == path), None)
        file = Accelerate() if found and found.problem == "missing" else self.job.accelerate
        if not path or file is None or nodes < 2 or launch.address or file.main_process_ip:
            return
        is_gpus = file.distributed_type in (None, "MULTI_GPU", "FSDP", "DEEPSPEED")
        if is_gpus and file.has_ranks and launch.is_whole and not _MEETING & launch.options.keys():
            self._add(
                MASTER,
                "master address",
                "none: accelerate gives torch the name None",
                "that of the first node",
                cause="the ranks look for a machine of that name, and end with an error",
                fix="add --main_process_ip ADDRESS, and --machine_rank N on each node",
            )

    def _add(self, rule: str, about: object, found: str, wanted: str, **more: str) -> None:
        subject = about if isinstance(about, FileLine | Path) else Thing(str(about))
        fault = Fault(subject, found, wanted, more.get("cause", ""), more.get("fix", ""))
        self._keep(rule, [fault])

    def _keep(self, rule: str, faults: Iterable[Fault]) -> None:
        self.job.faults.setdefault(rule, []).extend(faults)

    def _numbers(self) -> None:
        """Keep the options that a launcher does not have, or that are no numbers, as faults.

        An empty number is unknown, as with a variable that is set where the job runs.
        """
        for each in self.given.launch.nested:
            row = each.row
            self._keep(NODES, self._wrong_options(each))
            for name, number in row.numbers.items():
                if (text := each.options.get(name)) and not number.has(text):
                    rule = MASTER if name == row.roles.get("port") else NODES
                    self._add(rule, row.spelled(name), text, number.allowed)
        self._keep(NODES, self._behind_script())
        launch = self.given.launch.innermost
        named, port = launch.role("endpoint"), launch.endpoint and launch.endpoint[1]
        if named and (not launch.endpoint or (port and not PORT.has(port))):
            self._add(MASTER, launch.row.shown("endpoint"), named, f"HOST:PORT, {PORT.allowed}")

    def _no_script(self) -> None:
        """Keep a launcher that needs a script, and has none, as a fault."""
        last = self.given.launch.innermost
        is_help = last.options.keys() & {"help", "h", "version"}
        if last.row.releases and not (last.script or last.others or last.unknown or is_help):
            self._add(NODES, "program", "none", "a script behind the options", cause=_ENDS)

    def _wrong_options(self, launch: Launch) -> Iterator[Fault]:
        """Yield the options that stop a launcher; a warning where its release may have them."""
        releases, is_sure, program = launch.row.releases, False, f"{launch.kind}'s manual page"
        if releases is not None:
            found = {each.packages.get(releases.package, "") for each in self.state.pythons or ()}
            version = next(iter(found - {""}), "") if len(found - {""}) == 1 else ""
            is_sure = releases.has(version)
            release = version if is_sure else f"{releases.first} to {releases.last}"
            program = f"{releases.package} {release}"
        why = f"{program} has no such option: {_ENDS}"
        for option, meant in launch.wrong.items():
            # No release takes a dash where the option has _.
            is_dash = option.replace("-", "_") == meant.replace("-", "_")
            yield Fault(
                Thing(option),
                f"not an option of {launch.kind}",
                meant,
                why,
                f"write {meant.replace(', ', ' or ')}",
                severity=None if is_sure or is_dash else "warning",
            )
        for option in launch.others if is_sure else ():
            wrong, wanted = f"not an option of {launch.kind}", "an option of its --help"
            yield Fault(Thing(option), wrong, wanted, why, f"remove {option}, or correct it")

    def _behind_script(self) -> Iterator[Fault]:
        """Yield options of the launcher that it does not read, as they stand behind the script."""
        launch = self.given.launch.innermost
        placed = {name for role, name in launch.row.roles.items() if role in _PLACED}
        for word in launch.arguments:
            option = word.partition("=")[0]
            name = option.removeprefix("--").replace("-", "_")
            if option != name and name in placed - launch.options.keys():
                yield Fault(
                    Thing(option),
                    f"behind {launch.script}",
                    f"before {launch.script}",
                    f"{launch.kind} hands it to the script, and itself goes on without it",
                    f"write it before {launch.script}, unless the script has such an option",
                    severity="warning",
                )

    def _wrong(self, rule: str, path: str, wrong: Wrong) -> None:
        key = f"{wrong.key}: " if wrong.key else ""
        about = FileLine(path, wrong.line) if wrong.line else Path(path)
        self._add(rule, about, f"{key}{wrong.found}", wrong.allowed)

    def _text(self, path: str, is_needed: bool = True) -> str | None:
        """Return the text of a file of the launching node; a fault says why there is none."""
        found = next((each for each in self.state.files or () if each.path == path), None)
        if found is None and is_needed:
            self.job.unread.append(path)
        if found is None or (found.problem == "missing" and not is_needed):
            return None
        if found.problem.startswith("more than"):  # The job reads it, but this program does not.
            self.job.unread.append(f"{path} ({found.problem})")
            return None
        if found.problem:
            is_missing = found.problem == "missing"
            what = self.given.missing(path) if is_missing else found.problem
            fix = "copy it there, or name the folder of the job: --dir" if is_missing else ""
            self._add(CONFIG, Path(path), what, "a file that the job can read", fix=fix)
            return None
        return found.text

    def _accelerate(self) -> Accelerate | None:
        path = self.given.accelerate_file
        is_named = path != self.given.launch.innermost.row.defaults.get("config")
        text = self._text(path, is_named) if path else None
        read = configs.accelerate(text) if text is not None else None
        if isinstance(read, Wrong):
            self._wrong(CONFIG, path, read)
            return None
        return read

    def _config(self) -> DeepSpeed | None:
        name, text = self.given.config_name, self.given.config
        if text is None:
            name = self.given.config_of(self.job.accelerate)
            text = self._text(name) if name and name != "none" else None
        read = configs.deepspeed(text) if text is not None else None
        if isinstance(read, Wrong):
            self._wrong(CONFIG, name, read)
            return None
        both = read and read.fp16 and read.fp16.enabled and read.precision == "bf16"
        if both:
            self._add(CONFIG, Path(name), "bf16 and fp16 enabled", "one of them")
        return read

    def _members(self) -> dict[str, int | None]:
        """Return the nodes of the job; what is wrong with their list is kept as a fault."""
        return self._of_hosts() if self.given.launch.row.logs_in else self._of_agents()

    def _of_hosts(self) -> dict[str, int | None]:
        """Return the nodes of a launcher that logs in to the hosts of its line, or of its file."""
        launch, row = self.given.launch, self.given.launch.row
        self._hostfile_as_script(launch)
        named = launch.role("hosts")
        place = row.shown("hosts") if named else self.given.hostfile
        entries = named.split(",") if named else self._hostfile(place, launch)
        if isinstance(entries, dict):
            return entries
        # Open MPI gives a host of -H one slot.
        usual = 1 if named and row.hosts == "mpi" and not launch.is_hydra else None
        is_alone = not entries
        fix = "name it: --hostfile FILE; gpu-node hostfile INVENTORY prints one" * is_alone
        hosts = configs.hosts(entries, row.hosts, usual) if entries else {_LOCALHOST: ANY}
        if isinstance(hosts, Wrong):
            self._wrong(NODES, place, hosts)
            return {self.launcher: None}
        include, exclude = launch.role("include"), launch.role("exclude")
        chosen = configs.filtered(hosts, include, exclude, row.hosts)
        if isinstance(chosen, Wrong):
            about = row.shown("include" if include else "exclude")
            found = f"{chosen.found}: none is named" + f", and {place} is missing" * bool(place)
            self._add(NODES, about, found if is_alone else chosen.found, chosen.allowed, fix=fix)
            return {self.launcher: None}
        most, each = launch.count("nodes"), launch.count("each")
        if most and most > len(chosen):
            why = f"{place} is missing" if is_alone and place else f"{place} has"
            self._add(
                NODES, row.shown("nodes"), str(most), f"at most {len(chosen)}, as {why}", fix=fix
            )
        kept = dict([*chosen.items()][:most])
        if "" in (launch.role("nodes"), launch.role("each"), launch.role("ranks")):
            return self._placed(dict.fromkeys(kept), place)
        slots = {host: None if len(gpus) == ANY else len(gpus) for host, gpus in kept.items()}
        counts = self._spread(launch, {host: each or count for host, count in slots.items()}, slots)
        gpus = {host: range(each) if each else gpus for host, gpus in kept.items()}
        return self._placed(counts, place, gpus if row.sets_gpus else None)

    def _spread(
        self, launch: Launch, most: Mapping[str, int | None], slots: Mapping[str, int | None]
    ) -> Mapping[str, int | None]:
        """Return the ranks of each host, which gets at most `most`: the first is filled first."""
        ranks = launch.count("ranks")
        if ranks is None:
            return most
        known = [count for count in slots.values() if count is not None]
        if len(known) == len(slots) and ranks > sum(known):
            words = (*launch.options, launch.option("map_by"), *self.given.variables(True))
            if not any(_OVERSUBSCRIBES.search(each) for each in words if each):
                allowed = f"at most {sum(known)}, the slots of the hosts"
                self._add(NODES, launch.row.shown("ranks"), str(ranks), allowed, **_SLOTS)
        placed = dict[str, int | None]()
        for host, count in most.items():
            if count is None:
                return dict.fromkeys(most, ranks if len(most) == 1 else None)
            placed[host] = min(count, ranks)
            ranks -= min(count, ranks)
        return {host: count for host, count in placed.items() if count}

    def _hostfile(self, path: str, launch: Launch) -> list[str] | dict[str, int | None]:
        """Return the lines of the hostfile, none where no host is named; or unknown nodes."""
        is_named, usual = launch.role("hostfile") is not None, launch.row.defaults.get("hostfile")
        found = next((each for each in self.state.files or () if each.path == path), None)
        if is_named and found is None:  # It was not asked: any node with GPUs may be in it.
            self.job.unread.append(path or "the hostfile")
            others = [peer.name for peer in self.peers if peer.gpus != 0]
            return dict.fromkeys((self.launcher, *others))
        is_missing = found is None or found.problem == "missing"
        is_alone = is_missing and (bool(usual) or not is_named)
        if is_named and is_alone:
            why = f"{launch.kind} goes on, and trains on this node alone, without an error"
            what = self.given.missing(path)
            self._add(NODES, Path(path), what, "the hostfile of the line", cause=why)
        text = None if is_alone else self._text(path)
        if text is not None:
            return text.split("\n")
        is_known = is_alone and not launch.is_unknown("each", "include", "exclude")
        return [] if is_known else {self.launcher: None}

    def _hostfile_as_script(self, launch: Launch) -> None:
        """Keep a program that is a hostfile as a fault: the launcher gives it to Python."""
        path, text = self.given.odd_script, None
        if path:
            text = next((each.text for each in self.state.files or () if each.path == path), None)
        lines = text.split("\n") if text else []
        if lines and not isinstance(configs.hosts(lines, launch.row.hosts), Wrong):
            script = next((word for word in launch.arguments if word.endswith(".py")), "SCRIPT")
            named = f"{launch.kind} {launch.row.shown('hostfile')}"
            fix = f"{named} {shlex.quote(path)} {shlex.quote(script)}"
            self._add(NODES, Path(path), "a hostfile, in the place of the program", script, fix=fix)

    def _of_agents(self) -> dict[str, int | None]:
        """Return the nodes of a launcher that is started on each of them, or by Slurm."""
        outer, launch = self.given.launch, self.given.launch.innermost
        nodes, each = self._counts(outer, launch)
        self._ranked(launch, nodes)
        listed = self.given._listed()
        names = [peer.name for peer in self.peers if peer.gpus != 0]
        if listed:
            placed = self._placed(dict.fromkeys(listed, each), outer.row.shown("hosts"))
        elif nodes == 1:
            return {self.launcher: each}
        else:
            ordered = [self.launcher, *(name for name in names if name != self.launcher)]
            placed = dict.fromkeys(ordered, each)
        if nodes and nodes != len(placed):
            why = f"{len(placed)} nodes: {', '.join([*placed][:8])}"
            fix = "choose the nodes of the job with --limit, or correct the number in the line"
            self._add(NODES, "number of nodes", str(nodes), why, fix=fix)
        return placed

    def _ranked(self, launch: Launch, nodes: int | None) -> None:
        """Keep a rank that is not below the number of nodes as a fault; MIN:MAX nodes have none."""
        rank = launch.count("rank")
        is_elastic = ":" in (launch.role("nodes") or "")
        if nodes and rank is not None and rank >= nodes and not is_elastic:
            allowed = f"0 to {nodes - 1}, for {nodes} nodes"
            self._add(NODES, launch.row.shown("rank"), str(rank), allowed)

    def _counts(self, outer: Launch, launch: Launch) -> tuple[int | None, int | None]:
        """Return how many nodes there are, and how many ranks on each; None where unknown."""
        if not launch.row.roles and launch is outer:
            return 1, None
        file = self.job.accelerate or Accelerate()
        starts = outer if launch.kind == PYTHON else launch
        usual = starts.row.defaults if starts.is_whole else {}
        nodes = outer.count("nodes") or launch.count("nodes") or file.num_machines
        is_given = launch.role("nodes") is not None or self.job.accelerate is not None
        if nodes is None and launch is outer and not is_given:
            nodes = int(usual.get("nodes", 0)) or None
        ranks, each = starts.count("ranks"), starts.count("each")
        if not starts.is_unknown("ranks"):
            ranks = ranks or file.num_processes
        if each is None and starts.role("each") is None:
            each = int(usual.get("each", 0)) or None
        if nodes and ranks and ranks % nodes and starts.row.counts_all:
            name = starts.row.roles["ranks"]
            wanted = f"a multiple of {starts.row.roles['nodes']}, {nodes}"
            cause = f"it counts the ranks of all nodes: {launch.kind} starts as many on each"
            self._add(NODES, name, str(ranks), wanted, cause=cause)
        return nodes, each or (ranks // nodes if nodes and ranks else None)

    def _placed(
        self,
        hosts: Mapping[str, int | None],
        place: str,
        gpus: Mapping[str, Sequence[int]] | None = None,
    ) -> dict[str, int | None]:
        """Return hosts by the names of the inventory; one that it does not have is a fault."""
        placed: dict[str, int | None] = {}
        for host, count in hosts.items():
            user, _, address = host.rpartition("@")
            name = self._name(address)
            if name is None:
                fix = "correct the name, or add the node: gpu-node onboard NAME ADDRESS"
                found = f"in {place}, and not in the inventory"
                self._add(NODES, host, found, "a node of the inventory", fix=fix)
                continue
            placed[name] = count
            if name == address and self.given.launch.starter:
                self.job.named.add(name)
            if user:
                self.job.users[name] = user
            if gpus and len(gpus[host]) < ANY:
                self.job.gpus[name] = gpus[host]
        return placed or {self.launcher: None}

    def _name(self, host: str) -> str | None:
        """Return the node that a host of the job is: by name, by address, or as it resolves."""
        if host in ("localhost", "127.0.0.1"):
            return self.launcher
        means = {plain(each) for each in (host, *((self.state.names or {}).get(host) or ()))}
        for peer in self.peers:
            if host == peer.name or plain(peer.address) in means:
                return peer.name
        return None


def _pairs(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield option and value of words; a word without an option has the option ""."""
    waiting = ""
    for word in words:
        if word.startswith("--"):
            if waiting:
                yield waiting, ""
            name, has_value, text = word[2:].partition("=")
            waiting = "" if has_value else name.replace("-", "_")
            if has_value:
                yield name.replace("-", "_"), text
        else:
            yield waiting, word
            waiting = ""
    if waiting:
        yield waiting, ""


def _is_path(name: str, text: str) -> bool:
    """Whether an argument is a path; a model of a hub looks like a relative one."""
    if "://" in text or not is_file_name(text):
        return False
    if text.startswith(("/", "./", "../", "~/")):
        return len(text.strip("/.")) > 0
    is_hub = name.endswith("name_or_path") or "tokenizer" in name or not text or text[0] == "-"
    return not is_hub and bool(_SUFFIX.search(text) or ("/" in text and _OF_PATHS.search(name)))
