"""Kernels: the running one, the installed ones, what the boot loader boots next, dkms."""

import re
from collections.abc import Iterator

from gpu_node.facts.probe import checked
from gpu_node.facts.probe.base import Parsers, State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Part, Section, Unreadable
from gpu_node.facts.probe.readers import Columns, by_word, pairs
from gpu_node.facts.probe.shell import shell

# These read hundreds of files, or start as many programs (dkms): this is slow on a node with a busy
# processor or disk.
SECONDS = 60
SECTIONS = (
    # Only root may be able to read /boot, or a folder in it.
    Section("driver.kernels", shell("driver/kernels"), seconds=SECONDS, root=True, light=True),
    Section("driver.next", shell("driver/next_boot"), seconds=SECONDS, root=True, light=True),
    Section("driver.dkms", shell("driver/dkms"), seconds=SECONDS, light=True),
)

# nvidia/535.154.05, 6.1.0-13-amd64, x86_64: installed. Before dkms 3 it has only commas.
_STATUS = re.compile(
    r"(?P<name>[\w-]+)(?:/|, ?)(?P<version>[^,:/ ]+)"
    r"(?:, (?P<kernel>[^,]+), (?P<arch>[^:,]+))?: (?P<state>\w+)"
)
_ENTRY = re.compile(r"(?P<kind>menuentry|submenu)\s+(?P<quote>['\"])(?P<title>.*?)(?P=quote)")
_ID = re.compile(r"(?:--id|\$\{?menuentry_id_option\}?)\s+['\"]?(?P<id>[^'\"\s]+)")
_LINUX = re.compile(r"linux(?:16|efi)?\s+\S*/vmlinu[zx]-(?P<kernel>\S+)")
_DEFAULT = re.compile(r"set default=(?P<entry>.*)")


class Module(State):
    """The nvidia module that a kernel would load: its file, and the output of modinfo.

    `signer` is empty if it is not signed.
    """

    file: str
    version: str
    license: str
    signer: str


class Kernel(State):
    """An installed kernel; `image`: it can boot; `headers`: dkms can build for it."""

    name: str
    headers: bool
    image: bool
    module: Module | None


class Kernels(State):
    """The running kernel and the installed ones."""

    running: str
    installed: tuple[Kernel, ...]


class Entry(State):
    """An entry of GRUB's menu: its place (1>0 is the first entry in the second one, a submenu)."""

    place: str
    title: str
    id: str
    kernel: str | None


class Boot(State):
    """What each source specifies for the next boot; None if it does not exist or specifies nothing.

    `once` and `saved` are grubenv's next_entry and saved_entry, `setting` is GRUB_DEFAULT,
    `default` is what grub.cfg selects by, `closed` are the boot loader's files that only root can
    read, `held` is the kernel that the deploy has made the default until the hold is removed.
    """

    grubby: str | None
    once: str | None
    saved: str | None
    setting: str | None
    default: str | None
    closed: str | None
    entries: tuple[Entry, ...]
    held: str | None = None


class Source(State):
    """Sources of the nvidia module in /usr/src, as their dkms.conf names them."""

    name: str
    version: str


class Build(State):
    """A line of dkms status: `state` is added, built or installed; if added, there is no kernel."""

    name: str
    version: str
    kernel: str | None
    state: str


class Failed(State):
    """A build for a kernel that failed: the first error in its log."""

    version: str
    kernel: str
    error: str


_SOURCE = Columns(Source, "name version", " ")
_FAILED = Columns(
    Failed, "version kernel error...", " ", version=checked.version, kernel=checked.kernel
)


class Dkms(State):
    """Whether dkms is installed, the nvidia sources in /usr/src, and the builds of them."""

    present: bool
    sources: tuple[Source, ...]
    builds: tuple[Build, ...]
    failed: tuple[Failed, ...] = ()


# More than a node has; each is judged beside the others. The place of an entry has those of all
# submenus around it.
MOST_KERNELS, MOST_ENTRIES, DEEPEST = 128, 1000, 8


def parse_kernels(text: str) -> Kernels:
    """Parse `running NAME`, then a line for each installed kernel."""
    first, *rest = lines_of(text)
    word, _, running = first.partition("\t")
    if word != "running" or not running:
        raise Unreadable(f"no running kernel: {first!r}")
    if len(rest) > MOST_KERNELS:
        raise Unreadable(f"more than {MOST_KERNELS} kernels")
    return Kernels(running=checked.kernel(running), installed=tuple(map(_kernel, rest)))


def _kernel(line: str) -> Kernel:
    _, name, headers, image, file, version, license_, signer = line.split("\t")
    module = Module(file=file, version=version, license=license_, signer=signer)
    return Kernel(
        name=checked.kernel(name),
        headers=headers == "yes",
        image=image == "yes",
        module=module if file and version else None,
    )


def parse_boot(text: str) -> Boot:
    """Parse `SOURCE words` lines."""
    values = {word: entry.strip().strip("'\"") or None for word, entry in pairs(text).items()}
    menu = [line.strip() for line in by_word(text)["menu"]]
    chosen = [match["entry"].strip("'\"") for match in map(_DEFAULT.match, menu) if match]
    # grub.cfg also sets an entry that boots once as the default.
    lasting = [entry for entry in chosen if "next_entry" not in entry]
    names = ("grubby", "once", "saved", "setting", "closed", "held")
    return Boot.model_validate(
        {name: values.get(name) for name in names}
        | {"default": lasting[-1] if lasting else None, "entries": tuple(_entries(menu))}
    )


def _entries(menu: list[str]) -> Iterator[Entry]:
    """Yield the entries of a menu's lines as each one ends; other braces have no place."""
    open_: list[Entry | None] = []
    counts = [0]  # the entries so far, of the menu and of each submenu that is open
    entries = 0
    for line in menu:
        if line == "}":
            ended = open_.pop() if open_ else None
            if ended is not None:
                counts.pop()
                yield ended
        elif line.endswith("{"):
            entry = _entry(line, open_, counts[-1])
            open_.append(entry)
            if entry is not None:
                counts[-1] += 1
                counts.append(0)
                entries += 1
            if entries > MOST_ENTRIES or len(open_) > DEEPEST:
                raise Unreadable(f"a menu of more than {MOST_ENTRIES} entries, or {DEEPEST} deep")
        elif (match := _LINUX.match(line)) and open_ and (last := open_[-1]) is not None:
            open_[-1] = last.model_copy(update={"kernel": match["kernel"]})


def _entry(line: str, above: list[Entry | None], number: int) -> Entry | None:
    """Return the entry that a line opens; None if it opens something else."""
    match, named = _ENTRY.match(line), _ID.search(line)
    if match is None:
        return None
    place = ">".join([each.place for each in above[-1:] if each] + [str(number)])
    return Entry(place=place, title=match["title"], id=named["id"] if named else "", kernel=None)


def parse_dkms(text: str) -> Dkms:
    """Parse `present`, `status LINE`, `source NAME VERSION` and `failed VERSION KERNEL ERROR`."""
    rows = by_word(text)
    builds = [match.groupdict() for match in map(_STATUS.match, rows["status"]) if match]
    if len(builds) < len(rows["status"]):
        odd = next(line for line in rows["status"] if not _STATUS.match(line))
        raise Unreadable(f"dkms status not understood: {odd[:80]!r}")
    return Dkms(
        present="present" in rows,
        sources=tuple(map(_SOURCE.row, rows["source"])),
        builds=tuple(
            Build.model_validate({key: build[key] for key in Build.model_fields})
            for build in builds
        ),
        failed=tuple(map(_FAILED.row, rows["failed"])),
    )


def parse_next(text: str) -> Part[Boot]:
    """Parse such lines; without a file that only root can read, the rest is known."""
    boot = parse_boot(text)
    is_known = not boot.closed or boot.once or boot.grubby
    why = f"only root can read {boot.closed}, so the kernel that boots next is unknown"
    return Part(boot, "" if is_known else why)


PARSERS: Parsers = {
    "driver.next": ("boot", parse_next),
    "driver.kernels": ("kernels", parse_kernels),
    "driver.dkms": ("dkms", parse_dkms),
}
