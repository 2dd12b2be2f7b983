"""Prints, as one line of JSON, what a Python environment holds and which libnccl its torch loads.

It runs on a node, in the environment's own Python (3.6 or newer) with `-I`, and imports no torch:
it reads files, and asks the dynamic loader and the libraries themselves.
"""

import json
import os
import re
import site
import sys
import sysconfig
from importlib.util import find_spec

from gpu_node.facts.nccl.on_node.builds import built_in, deepspeed_of, libraries, torch_of
from gpu_node.facts.nccl.on_node.library import library
from gpu_node.facts.nccl.on_node.loading import loaded, text

# Where every nvidia-nccl-cuXX wheel puts its library, whatever XX is.
IN_WHEEL = "nvidia/nccl/lib/libnccl.so.2"
# A name that begins with ~ was moved away by a pip that was killed. One with a newline is of no
# package: what removes these folders takes each line for a path.
DIST = re.compile(r"^(?P<name>[^~\n]+?)-(?P<version>[^-\n]+)(?:-py[^-\n]*)?\.(?:dist|egg)-info\Z")
# Metadata that pip has not written whole.
UNFINISHED = re.compile(r"^(?:INSTALLER|RECORD|REQUESTED|direct_url\.json)\w+\.tmp\Z")
# In an environment's own folder, while packages_pip.sh installs what it lists.
MARK = ".gpu-node-pip"


def folders():
    """The folders that hold packages, in the order in which Python searches them, each once."""
    own = [path for path in sys.path if path.endswith("-packages")]
    kept, seen = [], set()
    for path in [*ahead(), *own]:
        real = os.path.realpath(path)
        if os.path.isdir(path) and real not in seen:  # lib64 may be a link to lib
            seen.add(real)
            kept.append(path)
    return kept


def ahead():
    """The folders before an environment's own packages: a job has them, `-I` leaves them out."""
    named = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    isolated = (
        sys.prefix != sys.base_prefix
        and "true"
        not in text(os.path.join(sys.prefix, "pyvenv.cfg"))
        .lower()
        .partition("include-system-site-packages")[2]
        .partition("\n")[0]
    )
    if isolated or os.environ.get("PYTHONNOUSERSITE"):
        return named
    return [*named, site.getusersitepackages()]


def plain_name(name):
    """A package's name as pip compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions(places):
    """Every distribution as name, version and metadata folder; the first of a name is used."""
    packages = []
    for place in filter(os.path.isdir, places):
        for entry in sorted(os.listdir(place)):
            match = DIST.match(entry)
            if match:
                name = plain_name(match.group("name"))
                packages.append((name, match.group("version"), os.path.join(place, entry)))
    return packages


def halves(packages):
    """The metadata folders made by a killed run of packages_pip.sh; the last one is incomplete.

    The run lists what it installs in a file, and removes that at its end: the folders are newer.
    """
    mark = os.path.join(sys.prefix, MARK)
    named = text(mark).split()
    if not named:
        return set()
    begun = {plain_name(pin.partition("==")[0]) for pin in named}
    since = os.stat(mark).st_mtime_ns
    return {
        folder
        for name, _, folder in packages
        if name in begun and os.stat(folder).st_mtime_ns >= since
    }


def is_ours(name):
    """Whether a package decides which NCCL torch has."""
    return name == "torch" or name.startswith("nvidia-nccl-")


def outside(packages):
    """torch and NCCL wheels that precede the environment's own packages."""
    before = {os.path.realpath(path) for path in ahead()}
    return [
        "%s %s in %s" % (name, version, os.path.dirname(folder))
        for name, version, folder in packages
        if is_ours(name) and os.path.realpath(os.path.dirname(folder)) in before
    ]


def twice(packages):
    """Metadata folders of torch and NCCL wheels that have more than one in the same place."""
    places = [(name, os.path.dirname(folder)) for name, _, folder in packages if is_ours(name)]
    return [
        folder
        for name, _, folder in packages
        if is_ours(name) and places.count((name, os.path.dirname(folder))) > 1
    ]


def is_external():
    """Whether the distribution manages this Python's packages (PEP 668)."""
    marker = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
    return sys.prefix == sys.base_prefix and os.path.exists(marker)


def pip():
    """Whose pip installs into this environment: its own, or the base's by --python (since 22.3)."""
    if find_spec("pip") is not None:
        return "own"
    release = "python%d.%d" % sys.version_info[:2]
    ends = ((release, "site-packages"), ("python3", "dist-packages"), (release, "dist-packages"))
    places = [os.path.join(sys.base_prefix, "lib", *end) for end in ends]
    found = distributions(each for each in places if sys.prefix != sys.base_prefix)
    versions = [re.findall(r"\d+", version) for name, version, _ in found if name == "pip"]
    return "base" if any([*map(int, each[:2])] >= [22, 3] for each in versions) else None


def maker():
    """What made this environment and installs into it, from a lock file; None: pip, or conda."""
    configured = text(os.path.join(sys.prefix, "pyvenv.cfg"))
    if re.search(r"^uv *=", configured, re.M):
        return "uv"
    if "/.pixi/envs/" in sys.prefix:
        return "pixi"
    lock = os.path.join(os.path.dirname(sys.prefix), "poetry.lock")
    return "poetry" if "/pypoetry/" in sys.prefix or os.path.exists(lock) else None


def wheels(packages):
    """The nvidia-nccl distributions, each name once, with the library's entry in its RECORD."""
    entries = []
    for name, version, folder in packages:
        if not name.startswith("nvidia-nccl-") or name in [entry["name"] for entry in entries]:
            continue
        entry = {"name": name, "version": version, "sha256": None, "size": None}
        for line in text(os.path.join(folder, "RECORD")).splitlines():
            fields = line.rsplit(",", 2)
            if len(fields) == 3 and fields[0].strip('"') == IN_WHEEL:
                entry["sha256"] = fields[1].replace("sha256=", "") or None
                entry["size"] = int(fields[2]) if fields[2].isdigit() else None
        entries.append(entry)
    return entries


def code(version: str) -> "int | None":
    """2.18.1 as ncclGetVersion reports it: X*10000 + Y*100 + Z since 2.9, X*1000 before.

    Source: NCCL's src/nccl.h.in.
    """
    parts = [int(part) for part in re.findall(r"\d+", version)[:3]]
    if len(parts) < 3:
        return None
    major, minor, patch = parts
    return major * (1000 if (major, minor) < (2, 9) else 10000) + minor * 100 + patch


def platform():
    """The platform of the newest wheels for this machine, as in their file names."""
    try:
        version = os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    except (AttributeError, IndexError, OSError, ValueError):  # another C library
        return None
    return "manylinux_%s_%s" % (version.replace(".", "_"), os.uname()[4])


def main(deep):
    """Print all of it."""
    places = folders()
    packages = distributions(places)
    entries = wheels(packages)
    half = halves(packages)
    torch = torch_of(packages)
    sums = {(entry["version"], entry["size"]) for entry in entries}

    def doubtful(version, size):
        return deep or any(size == length and version != code(number) for number, length in sums)

    own = next(
        (
            path
            for path in (os.path.join(place, IN_WHEEL) for place in places)
            if os.path.exists(path)
        ),
        None,
    )
    use = loaded(torch) if torch else None
    if use and use["reason"] == "built in" and not torch["nccl"]:
        torch["nccl"] = (built_in(use["user"]) or [None])[0]
    print(
        json.dumps(
            {
                "python": "%d.%d.%d" % sys.version_info[:3],
                "platform": platform(),
                "torch": torch,
                "wheels": entries,
                "outside": outside(packages),
                "twice": twice(packages),
                "external": is_external(),
                "pip": pip(),
                "maker": maker(),
                "file": library(own, doubtful) if own else None,
                "loads": use,
                "loaded": library(use["path"], lambda *_: False) if use and use["path"] else None,
                "bitsandbytes": libraries("bitsandbytes", packages),
                "deepspeed": deepspeed_of(packages),
                "packages": {
                    name: version
                    for name, version, folder in reversed(packages)
                    if folder not in half
                },
            },
            sort_keys=True,
        )
    )


def unrecorded(names):
    """Metadata folders of packages without a RECORD: pip can neither check nor remove those."""
    return [
        folder
        for name, _, folder in distributions(folders())
        if name in names and not os.path.exists(os.path.join(folder, "RECORD"))
    ]


def left_of(names):
    """What a killed pip has left of packages: metadata that it has not finished, and `moved`."""
    places = folders()
    unfinished = [
        os.path.join(folder, entry)
        for name, _, folder in distributions(places)
        if name in names and os.path.isdir(folder)
        for entry in os.listdir(folder)
        if UNFINISHED.match(entry)
    ]
    return unfinished + [each for place in places for each in moved(place, names)]


def moved(place, names):
    """The folders of packages that pip moved away: metadata, and those that its RECORD names.

    pip puts a ~ in place of the first character, and removes them when it has replaced them.
    """
    aside = []
    for entry in sorted(os.listdir(place)):
        match = DIST.match(entry[1:]) if entry.startswith("~") else None
        if match is None or plain_name(match.group("name")) not in {name[1:] for name in names}:
            continue
        metadata = os.path.join(place, entry)
        recorded = text(os.path.join(metadata, "RECORD")).splitlines()
        for folder in sorted({each for line in recorded for each in above(line.split(",")[0])}):
            head, name = os.path.split(folder)
            away = os.path.join(place, head, "~" + name[1:])
            if os.path.isdir(away) and away != metadata:
                aside.append(away)
        aside.append(metadata)
    return aside


def above(path):
    """The folders on the way to a file of a RECORD; none if it is not below the packages."""
    parts = path.split("/")[:-1]
    if path.startswith("/") or ".." in parts:
        return []
    return ["/".join(parts[:number]) for number in range(1, len(parts) + 1)]


def report(mark, paths):
    """Print what is to be removed, behind a mark: other lines are those of start files.

    A base that the environment shares has packages as well: they are not its own.
    """
    top = os.path.join(os.path.realpath(sys.prefix), "")
    for path in paths:
        folder = os.path.join(os.path.realpath(os.path.dirname(path)), "")
        if folder.startswith(top):
            print("\n" + mark + path)


def whole(name):
    """End with a message unless the library is the file that the RECORD of one wheel names."""
    places = folders()
    entries = [entry for entry in wheels(distributions(places)) if entry["name"] == name]
    paths = [os.path.join(place, IN_WHEEL) for place in places]
    installed = [library(path, lambda *_: True) for path in paths if os.path.exists(path)]
    if len(entries) != 1 or not installed:
        sys.exit("%s: %d wheels and %d libraries installed" % (name, len(entries), len(installed)))
    if os.path.islink(installed[0]["path"]):
        sys.exit("%(path)s is a link" % installed[0])
    if installed[0]["problem"]:
        sys.exit("%(path)s cannot be loaded: %(problem)s" % installed[0])
    if entries[0]["sha256"] != installed[0]["sha256"] or entries[0]["size"] != installed[0]["size"]:
        sys.exit("%s is not the file that the RECORD of %s names" % (installed[0]["path"], name))
    if installed[0]["version"] != code(entries[0]["version"]):
        sys.exit("%(path)s reports the version %(version)s" % installed[0])


if __name__ == "__main__":
    if sys.argv[1:2] == ["whole"]:
        whole(sys.argv[2])
    elif sys.argv[1:2] == ["unrecorded"]:
        report(sys.argv[2], [*unrecorded(sys.argv[3:]), *left_of(sys.argv[3:])])
    elif sys.argv[1:2] == ["halves"]:
        begun = [plain_name(pin.partition("==")[0]) for pin in sys.argv[3:]]
        report(sys.argv[2], [*halves(distributions(folders())), *left_of(begun)])
    else:
        main("deep" in sys.argv[1:])
