"""Reports what packages were built for, from their files: torch, and libraries beside Python code.

It is a part of the program that runs on a node in the environment's own Python, 3.6 or newer.
"""

import mmap
import os
import re
import struct

from gpu_node.facts.nccl.on_node.loading import text

# What torch.cuda.get_arch_list() splits: CUDA_ARCH_FLAGS, compiled into torch's Python library.
ARCHITECTURES = re.compile(rb"(?:sm|compute)_\d+[a-z]?(?: (?:sm|compute)_\d+[a-z]?)*")
LONGEST = 400
BUILT_IN = re.compile(rb"NCCL version (\d+\.\d+\.\d+)\+cuda")
BLOCK = 1 << 22


def torch_of(found):
    """torch's version, its CUDA, the NCCL that it pins, and the GPUs it has kernels for."""
    several = [(version, folder) for name, version, folder in found if name == "torch"]
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
        "root": root,
    }


def plain(version):
    """A version without its build."""
    return version.partition("+")[0]


def architectures(path):
    """The list such as sm_70 and compute_70 in torch's library; None if it is not found."""
    if not os.path.isfile(path) or not os.path.getsize(path):
        return None
    with open(path, "rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as data:
        place = data.find(b"sm_")
        while place >= 0:
            start = data.rfind(b"\0", max(0, place - LONGEST), place) + 1
            end = data.find(b"\0", place, place + LONGEST)
            if start > 0 and end > 0 and ARCHITECTURES.fullmatch(data[start:end]):
                return data[start:end].decode("ascii").split()
            place = data.find(b"sm_", place + 1)
    return None


def built_in(path):
    """The version of an NCCL that is built into torch's CUDA library; None if it names none.

    Only constants are searched: most of the library's gigabytes are kernels, in sections beside.
    """
    with open(path, "rb") as source:
        place, size = constants(source)
        source.seek(place)
        rest = b""
        while size > 0:
            block = source.read(min(size, BLOCK))
            match = BUILT_IN.search(rest + block)
            if match or not block:
                return match.group(1).decode("ascii") if match else None
            size, rest = size - len(block), block[-LONGEST:]
    return None


def constants(source):
    """Offset and size of .rodata in a 64-bit ELF library; 0 and 0 if there is none."""
    head = source.read(64)
    if head[:5] != b"\x7fELF\2":
        return 0, 0
    end = "<" if head[5] == 1 else ">"
    (start,) = struct.unpack_from(end + "Q", head, 40)
    each, count, names = struct.unpack_from(end + "HHH", head, 58)
    source.seek(start)
    table = source.read(each * count)
    if each < 64 or len(table) < each * count or names >= count:
        return 0, 0
    rows = [struct.unpack_from(end + "IIQQQQ", table, index * each) for index in range(count)]
    source.seek(rows[names][4])
    called = source.read(rows[names][5])
    for name, _, _, _, place, size in rows:
        if called[name : called.find(b"\0", name)] == b".rodata":
            return place, size
    return 0, 0


def libraries(package, found):
    """The names of the libraries in a package's folder; None if it is not installed."""
    for name, _, folder in found:
        if name == package:
            place = os.path.join(os.path.dirname(folder), package)
            entries = os.listdir(place) if os.path.isdir(place) else []
            return sorted(entry for entry in entries if re.search(r"\.so(\.|$)", entry))
    return None
