"""Reports which libnccl the dynamic loader loads for torch's CUDA library, and by which rule.

It is a part of the program that runs on a node in the environment's own Python, 3.6 or newer.
"""

import glob
import os
import re
import stat
import struct
import subprocess
import sys

SONAME = "libnccl.so.2"
LOADER_SECONDS = 20
# More than the longest RECORD of a package.
MOST_TEXT = 32 << 20


def opened(path):
    """Open a regular file; a user may put a pipe, which blocks, or a device in its place.

    To open either one has an effect, so the file is examined by a handle first (O_PATH), which has
    none.
    """
    handle = os.open(path, os.O_PATH)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError("%s is not a regular file" % path)
        return open("/proc/self/fd/%d" % handle, "rb")
    finally:
        os.close(handle)


def text(path):
    """A file's text; empty if it does not exist."""
    try:
        with opened(path) as source:
            data = source.read(MOST_TEXT + 1)
    except FileNotFoundError:  # any other error makes the whole answer unreadable
        return ""
    if len(data) > MOST_TEXT:
        raise OSError("%s has more than %d MiB" % (path, MOST_TEXT >> 20))
    return data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")


def piece(source, place, size):
    """Read what an ELF header names; a header may name anything, and a file may be sparse."""
    if place > source.seek(0, os.SEEK_END) or size > MOST_TEXT:
        raise ValueError("its ELF header is damaged")
    source.seek(place)
    return source.read(size)


def dynamic(path):
    """DT_NEEDED, DT_RPATH and DT_RUNPATH of a 64-bit ELF library."""
    with opened(path) as source:
        head = source.read(64)
        if head[:4] != b"\x7fELF" or head[4] != 2:
            raise ValueError("not a 64-bit ELF file")
        end = "<" if head[5] == 1 else ">"
        (phoff,) = struct.unpack_from(end + "Q", head, 32)
        phsize, count = struct.unpack_from(end + "HH", head, 54)
        table = piece(source, phoff, phsize * count)
        segments = [
            struct.unpack_from(end + "IIQQQQQQ", table, index * phsize) for index in range(count)
        ]
        entries = []
        for kind, _, offset, _, _, size, _, _ in segments:
            if kind == 2:  # PT_DYNAMIC
                data = piece(source, offset, size)
                pairs = struct.iter_unpack(end + "QQ", data[: len(data) // 16 * 16])
                entries = [pair for pair in pairs if pair[0]]
        address = next((value for tag, value in entries if tag == 5), None)  # DT_STRTAB
        length = next((value for tag, value in entries if tag == 10), 0)  # DT_STRSZ
        for kind, _, offset, virtual, _, size, _, _ in segments:
            if kind == 1 and address is not None and virtual <= address < virtual + size:
                strings = piece(source, offset + address - virtual, length)
                break
        else:
            raise ValueError("no dynamic strings")

    def named(tag):
        names = [
            strings[value : strings.index(b"\0", value)] for key, value in entries if key == tag
        ]
        return [name.decode("utf-8", "replace") for name in names]

    return {"needed": named(1), "rpath": named(15), "runpath": named(29)}


def loaded(torch):
    """Which libnccl the dynamic loader loads for torch's CUDA library, and why."""
    names = ("libtorch_cuda.so", "libtorch_cuda_cpp.so", "libtorch.so")
    for path in (os.path.join(torch["root"], "lib", name) for name in names):
        if os.path.isfile(path):
            break
    else:
        return {"user": None, "path": None, "reason": None, "problem": "torch has no CUDA library"}
    result = {"user": path, "path": None, "reason": None, "problem": None}
    try:
        result["path"] = traced(path)
        result["reason"] = why(result["path"], path) if result["path"] else "built in"
    except (OSError, ValueError, subprocess.SubprocessError, struct.error) as error:
        result["problem"] = str(error)
    return result


def traced(path):
    """Ask the loader which libnccl Python would map for a library; None if it needs none.

    The library is loaded before Python's own libraries, so that Python's DT_RPATH counts, as it
    does for everything loaded later. A preload still comes first.
    """
    needs = dynamic(path)["needed"]
    preload = " ".join([*os.environ.get("LD_PRELOAD", "").replace(":", " ").split(), path])
    done = subprocess.run(
        [interpreter(), "--list", os.path.realpath(sys.executable)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        env=dict(os.environ, LD_PRELOAD=preload),
        timeout=LOADER_SECONDS,
    )
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    taken = None
    for line in lines:
        if "libnccl" not in line:
            continue
        match = re.search(r"(?:=> )?(/\S*libnccl\S*) \(0x", line)
        if match and taken is None:
            taken = match.group(1)
        elif "not found" in line and SONAME in line and taken is None:
            raise ValueError("%s is not found" % SONAME)
    if taken is None and SONAME in needs:
        words = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        raise ValueError(words[-1] if words else "the loader printed nothing")
    return taken


def interpreter():
    """The dynamic loader of this Python: the node's own."""
    for pattern in ("/lib64/ld-linux-*.so.*", "/lib/ld-linux-*.so.*", "/lib/ld-musl-*.so.*"):
        for path in sorted(glob.glob(pattern)):
            return path
    raise OSError("found no dynamic loader")


def why(taken, user):
    """The rule of ld.so(8) by which a library was found."""
    folder = os.path.realpath(os.path.dirname(taken))
    if is_named(taken, re.split("[ :]", os.environ.get("LD_PRELOAD", ""))):
        return "LD_PRELOAD"
    if is_named(taken, text("/etc/ld.so.preload").split()):
        return "/etc/ld.so.preload"
    asks, python = dynamic(user), os.path.realpath(sys.executable)
    if folder in expanded(asks["rpath"], user) and not asks["runpath"]:
        return "DT_RPATH"
    if not asks["runpath"] and folder in expanded(dynamic(python)["rpath"], python):
        return "DT_RPATH"
    if folder in expanded([os.environ.get("LD_LIBRARY_PATH", "")], user):
        return "LD_LIBRARY_PATH"
    if folder in expanded(asks["runpath"], user):
        return "DT_RUNPATH"
    return "ld.so.cache"


def is_named(taken, names):
    """Whether a preload leads to a library: by its path, or by a name that the loader searches."""
    same = os.path.realpath(taken)
    return any(
        os.path.realpath(name) == same if "/" in name else name == os.path.basename(taken)
        for name in names
        if name
    )


def expanded(paths, user):
    """The real folders of lists with colons; $ORIGIN is the folder of `user`."""
    origin = os.path.dirname(os.path.realpath(user))
    entries = [entry for path in paths for entry in path.split(":") if entry]
    named = (re.sub(r"\$(ORIGIN|\{ORIGIN\})", lambda _: origin, entry) for entry in entries)
    return {os.path.realpath(entry) for entry in named}
