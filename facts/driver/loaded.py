"""Loaded: the nvidia module in the kernel, the lines that block it, and the driver's libraries."""

import re

from gpu_node.facts.driver.kernels import SECONDS
from gpu_node.facts.probe.base import Parsers, State
from gpu_node.facts.probe.lines import lines_of
from gpu_node.facts.probe.protocol import Section, Unreadable
from gpu_node.facts.probe.readers import Columns, by_word, parted
from gpu_node.facts.probe.shell import shell

SECTIONS = (
    Section("driver.loaded", shell("driver/loaded"), seconds=SECONDS, light=True),
    Section("driver.library", shell("driver/libcuda") + shell("driver/library"), light=True),
)


class Bar(State):
    """A line that prevents nvidia from being loaded: its file (or /proc/cmdline) and its text.

    The text is `blacklist nvidia`, `install nvidia /bin/false`, `alias nvidia off`, or a word of
    the command line, such as `modprobe.blacklist=nvidia`.
    """

    place: str
    text: str


_BAR = Columns(Bar, "place text")


class Loaded(State):
    """The loaded nvidia module's version ("": none), whether it is the open one, and nouveau.

    `bars` are the active lines that block nvidia. `keeps_persistence` is whether something enables
    persistence mode at boot (None: there is no systemd, so no unit can be found). `peermem`: the
    module is loaded by which cards of the network reach the memory of GPUs.
    """

    nvidia: str
    is_open: bool
    nouveau: bool
    bars: tuple[Bar, ...] = ()
    keeps_persistence: bool | None = None
    peermem: bool = False


class Cuda(State):
    """The libcuda that a program would load ("": none), and the driver's version in its name.

    The version is empty if the name has none, such as the stub in CUDA's toolkit.
    """

    path: str
    version: str


def parse_loaded(text: str) -> Loaded:
    """Parse the module's version, the words for nouveau and the open module, and `barred` lines."""
    first, *rest = lines_of(text)
    bars, _ = parted(text, "barred\t")
    kept = {"persistence kept": True, "persistence lost": False}
    return Loaded(
        nvidia=first.removeprefix("nvidia").strip(),
        is_open="open" in rest,
        nouveau="nouveau" in rest,
        bars=tuple(map(_BAR.row, by_word(bars, "\t")["barred"])),
        peermem="peermem" in rest,
        keeps_persistence=next((kept[line] for line in rest if line in kept), None),
    )


def parse_libraries(text: str) -> tuple[str, Cuda]:
    """Parse the path of libnvidia-ml, then `cuda PATH`; a missing library has no line.

    The name of libnvidia-ml ends in the version, which is returned ("": no library).
    """
    lines = lines_of(text)
    paths = [line.removeprefix("cuda ") for line in lines if line.startswith("cuda ")]
    library = next((line.strip() for line in lines if not line.startswith("cuda ")), "")
    if library and not _version(library):
        raise Unreadable(f"a library without a version: {library}")
    cuda = paths[0].strip() if paths else ""
    return _version(library), Cuda(path=cuda, version=_version(cuda))


def _version(path: str) -> str:
    """Return 535.154.05 of /usr/lib64/libcuda.so.535.154.05; empty if the name has no version."""
    version = path.rpartition("/")[2].partition(".so.")[2]
    return version if re.fullmatch(r"\d+(\.\d+)+", version) else ""


PARSERS: Parsers = {
    "driver.library": ("library cuda", parse_libraries),
    "driver.loaded": ("loaded", parse_loaded),
}
