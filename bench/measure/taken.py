"""Runs a command and writes what it took as JSON: python -S taken.py FILE COMMAND...

A process of its own, with little memory: the most memory of a child counts from the one that starts
it. It imports only what Python has.
"""

import json
import os
import resource
import subprocess
import sys
import time

if __name__ == "__main__":
    file, *words = sys.argv[1:]
    began = time.perf_counter()
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL)
    code = process.wait()
    wall = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    taken = {
        "code": code,
        "wall": wall,
        "cpu": used.ru_utime + used.ru_stime,
        "megabytes": used.ru_maxrss / 1024,
        "load": os.getloadavg()[0],
    }
    with open(file, "w") as written:
        json.dump(taken, written)
