"""Reports what packages were built for, from their files: torch, and libraries beside Python code.

It is a part of the program that runs on a node in the environment's own Python, 3.6 or newer.
"""

import mmap
import os
import re
import struct

from gpu_node.facts.nccl.on_node.loading import opened, piece, text

# What torch.cuda.get_arch_list() splits: CUDA_ARCH_FLAGS, compiled into torch's Python library.
ARCHITECTURES = re.compile(rb"(?:sm|compute)_\d+[a-z]?(?: (?:sm|compute)_\d+[a-z]?)*")
LONGEST = 400
# The compilers that torch accepts for a CUDA toolkit, in CUDA_GCC_VERSIONS of its cpp_extension.py:
# '11.4': ((6, 0, 0), (12, 0)), with the second one excluded.
COMPILERS = re.compile(r"^CUDA_GCC_VERSIONS[^\n=]*= \{$(.*?)^\}", re.M | re.S)
BOUNDS = re.compile(r"'(\d+\.\d+)': \((\([\d, ]+\)|MINIMUM_GCC_VERSION), (\([\d, ]+\))\)")
LEAST = re.compile(r"^MINIMUM_GCC_VERSION = (\([\d, ]+\))", re.M)
# An #error of torch's headers, in releases before 2.10.
HEADER = re.compile(r"too old version of GCC\. We need GCC (\d+)")
# In DeepSpeed's op_builder/builder.py: 12: ["12.0", "12.1"], and the same for others.
ALIKE = re.compile(r"^cuda_minor_mismatch_ok = \{$(.*?)^\}", re.M | re.S)
# DeepSpeed has about 20 operators.
MOST_OPERATORS = 64
# The format of .nv_fatbin: containers, each with kernels for one architecture. Not documented by
# NVIDIA; checked with NCCL's wheels (tests/real_wheels).
CONTAINER = 0xBA55ED50
MOST_KERNELS = 100000
KERNELS = {1: "compute_%d", 2: "sm_%d"}
BUILT_IN = re.compile(rb"NCCL version (\d+\.\d+\.\d+)\+cuda(\d{1,3}\.\d{1,3})?")
BLOCK = 1 << 22
# A sparse file may have any size.
MOST_CONSTANTS = 1 << 30


def torch_of(packages):
    """torch's version, its CUDA, the NCCL that it pins, and the GPUs it has kernels for."""
    several = [(version, folder) for name, version, folder in packages if name == "torch"]
    if not several:
        return None
    root = os.path.join(os.path.dirname(several[0][1]), "torch")
    source = text(os.path.join(root, "version.py"))
    version_line = re.search(r"^__version__ = '([^']+)'", source, re.M)
    cuda = re.search(r"^cuda(?:: [^=]+)? = '([^']+)'", source, re.M)
    # An interrupted upgrade leaves several: take the metadata of the version that is installed.
    same = [
        each for each in several if version_line and plain(each[0]) == plain(version_line.group(1))
    ]
    version, folder = (same or several)[0]
    metadata = text(os.path.join(folder, "METADATA")) or text(os.path.join(folder, "PKG-INFO"))
    pin = re.search(r"^Requires-Dist: (nvidia-nccl-cu\d+)\s*\(?==\s*([\w.]+)", metadata, re.M)
    return {
        "version": version_line.group(1) if version_line else version,
        "cuda": cuda.group(1) if cuda else None,
        "wheel": pin.group(1) if pin else None,
        "nccl": pin.group(2) if pin else None,
        "architectures": architectures(os.path.join(root, "lib", "libtorch_python.so")),
        "compilers": compilers(root),
        "root": root,
    }


def compilers(root):
    """The GCC that torch accepts: the oldest, and for each CUDA toolkit from which to which."""
    source = text(os.path.join(root, "utils", "cpp_extension.py"))
    least, table = LEAST.search(source), COMPILERS.search(source)
    if not least or not table:
        return None
    header = HEADER.search(text(os.path.join(root, "include", "c10", "util", "C++17.h")))
    return {
        "least": dotted(least.group(1)),
        "header": header.group(1) if header else None,
        "cuda": {
            cuda: [dotted(least.group(1) if lowest[0] != "(" else lowest), dotted(limit)]
            for cuda, lowest, limit in BOUNDS.findall(table.group(1))
        },
    }


def dotted(numbers):
    """(6, 0, 0) as 6.0.0."""
    return ".".join(re.findall(r"\d+", numbers))


def plain(version):
    """A version without its build."""
    return version.partition("+")[0]


def architectures(path):
    """The list such as sm_70 and compute_70 in torch's library; None if it is not found."""
    if not os.path.isfile(path) or not os.path.getsize(path):
        return None
    with opened(path) as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as data:
        place = data.find(b"sm_")
        while place >= 0:
            start = data.rfind(b"\0", max(0, place - LONGEST), place) + 1
            end = data.find(b"\0", place, place + LONGEST)
            if start > 0 and end > 0 and ARCHITECTURES.fullmatch(data[start:end]):
                return data[start:end].decode("ascii").split()
            place = data.find(b"sm_", place + 1)
    return None


def built_in(path):
    """The NCCL in a library, torch's own or a libnccl: version and CUDA; None if it names none.

    Only constants are searched: most of the library's gigabytes are kernels, in sections beside.
    """
    with opened(path) as source:
        try:
            place, size = section(source, b".rodata") or (0, 0)
            piece(source, place, 0)
        except (struct.error, ValueError):
            return None
        size, rest = min(size, MOST_CONSTANTS), b""
        while size > 0:
            block = source.read(min(size, BLOCK))
            match = BUILT_IN.search(rest + block)
            if match or not block:
                return [group.decode("ascii") for group in match.groups(b"")] if match else None
            size, rest = size - len(block), block[-LONGEST:]
    return None


def section(source, wanted):
    """Offset and size of a section of a 64-bit ELF library, 0 and 0 if it has none; or None."""
    head = source.read(64)
    if head[:5] != b"\x7fELF\2":
        return None
    end = "<" if head[5] == 1 else ">"
    (start,) = struct.unpack_from(end + "Q", head, 40)
    each, count, names = struct.unpack_from(end + "HHH", head, 58)
    table = piece(source, start, each * count)
    if each < 64 or len(table) < each * count or names >= count:
        return None
    rows = [struct.unpack_from(end + "IIQQQQ", table, index * each) for index in range(count)]
    called = piece(source, *rows[names][4:6])
    for name, _, _, _, place, size in rows:
        if called[name : called.find(b"\0", name)] == wanted:
            return place, size
    return 0, 0


def deepspeed_of(packages):
    """The CUDA releases that DeepSpeed takes for one another, and its compiled operators."""
    for name, _, folder in packages:
        if name == "deepspeed":
            root = os.path.join(os.path.dirname(folder), "deepspeed", "ops")
            table = ALIKE.search(text(os.path.join(root, "op_builder", "builder.py")))
            groups = re.findall(r"\[([^]]*)\]", table.group(1)) if table else []
            return {
                "alike": [re.findall(r"\d+\.\d+", group) for group in groups] or None,
                "operators": operators(root),
            }
    return None


def operators(root):
    """The operators that were compiled at the installation, with the GPUs they are for."""
    paths = sorted(
        os.path.join(above, name)
        for above, _, names in os.walk(root)
        for name in names
        if name.endswith(".so")
    )
    return [operator(path, root) for path in paths[:MOST_OPERATORS]]


def operator(path, root):
    """An operator; size and time show whether that of another node is the same file."""
    try:
        status = os.stat(path)
        with opened(path) as source:
            built = kernels(source)
    except OSError:
        return {"name": os.path.relpath(path, root), "size": 0, "time": 0, "architectures": None}
    return {
        "name": os.path.relpath(path, root),
        "size": status.st_size,
        "time": int(status.st_mtime),
        "architectures": built,
    }


def kernels(source):
    """The architectures that a library has kernels for: [] if it has none, None if unknown."""
    try:
        part = section(source, b".nv_fatbin")
        return None if part is None else sorted(set(containers(source, *part)))
    except (struct.error, ValueError):
        return None


def containers(source, place, size):
    """Yield the architectures; an unknown form is a ValueError."""
    end = place + size
    for _ in range(MOST_KERNELS):
        if place + 16 > end:
            return
        mark, _, head, length = struct.unpack("<IHHQ", piece(source, place, 16))
        if mark == 0:  # between two of them
            place += 8
            continue
        if mark != CONTAINER or head < 16 or place + head + length > end:
            raise ValueError("not a container")
        each, place = place + head, place + head + length
        while each < place:
            row = struct.unpack("<HHIQIIHHI", piece(source, each, 32))
            kind, _, head, length, _, _, _, _, number = row
            if kind not in KERNELS or head < 32 or not 10 <= number < 1000:
                raise ValueError("not a kernel")
            yield KERNELS[kind] % number
            each += head + length
    raise ValueError("too many")


def libraries(package, packages):
    """The names of the libraries in a package's folder; None if it is not installed."""
    for name, _, folder in packages:
        if name == package:
            place = os.path.join(os.path.dirname(folder), package)
            entries = os.listdir(place) if os.path.isdir(place) else []
            return sorted(entry for entry in entries if re.search(r"\.so(\.|$)", entry))
    return None
