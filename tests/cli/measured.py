"""Runs a command and writes what it took to a file: seconds of a processor, and its most MB.

A process of its own: the most memory of a child counts from the one that starts it.
"""

import resource
import subprocess
import sys

if __name__ == "__main__":
    file, *words = sys.argv[1:]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, check=False)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(file, "w") as written:
        written.write(f"{used.ru_utime + used.ru_stime} {used.ru_maxrss / 1024}")
    sys.exit(done.returncode)
