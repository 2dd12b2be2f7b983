"""Listens on three ports of an address, and connects to those of the other nodes.

It runs in any Python from 2.6 on, is given the address, and speaks with the controller: it prints
`ready FIRST LAST PORT PORT PORT`, reads lines `ADDRESS PORT PORT PORT` and `go`, prints how each
connection ended, then `tried`, and answers each later line with `listens`. It ends with its stdin.
"""

import sys

sys.path = [folder for folder in sys.path if folder]

import errno
import os
import select
import signal
import socket

# Where a job may be about to listen: the ports of torch, Megatron, MPI and examples.
MASTERS = (1234, 6000, 6379, 12345, 12355, 23456, 29400, 29500, 29501)
LIFE_SECONDS, CONNECT_SECONDS, CARRY_SECONDS = 20, 4, 3
# The first port's connections carry two messages: one that fits into any packet, and a large one.
SMALL, LARGE = 512, 256 * 1024
MOST_CARRIED = 64
WAITING = (errno.EINPROGRESS, errno.EAGAIN, errno.EWOULDBLOCK, errno.EINTR)


def now():
    """Return seconds that no setting of the clock changes."""
    return os.times()[4]


def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode("ascii"))


def words_of(path):
    try:
        with open(path) as file:
            return file.read().replace(",", " ").split()
    except (IOError, OSError):
        return []


def left_alone():
    """Return the ports that are in use at any address, kept by the administrator, or a master's."""
    kept = set(MASTERS)
    for word in words_of("/proc/sys/net/ipv4/ip_local_reserved_ports"):
        first, _, last = word.partition("-")
        kept.update(range(int(first), int(last or first) + 1))
    for name in ("tcp", "tcp6"):
        for word in words_of("/proc/net/" + name):
            local, between, port = word.partition(":")
            if between and len(local) in (8, 32) and len(port) == 4:
                kept.add(int(port, 16))
    return kept


def listening(family, address, first, last):
    """Return a listener in the low, the middle and the high third of the ports."""
    kept, found, size = left_alone(), [], (last - first + 1) // 3
    for third in range(3):
        for step in range(size):
            port = first + third * size + (os.getpid() * 7 + step) % size
            if port in kept:
                continue
            listener = socket.socket(family, socket.SOCK_STREAM)
            try:
                listener.bind((address, port))
                listener.listen(128)
            except socket.error:
                code = sys.exc_info()[1].args[0]
                if code == errno.EADDRINUSE:
                    continue
                sys.exit("cannot listen at %s: %s" % (address, os.strerror(code)))
            listener.setblocking(False)
            found.append(listener)
            break
    if len(found) < 3:
        sys.exit("no free ports in %d-%d" % (first, last))
    return found


class Try:
    """A connection to a port of a peer; `end` is when it is given up, 0 once it is over."""

    def __init__(self, source, peer, at, target):
        self.peer, self.at, self.heard, self.left = peer, at, b"", b""
        self.is_open, self.end, self.sock = False, now() + CONNECT_SECONDS, None
        try:
            self.sock = socket.socket(source[0], socket.SOCK_STREAM)
            self.sock.setblocking(False)
            self.sock.bind((source[1], 0))
            code = self.sock.connect_ex(target)
        except socket.error:
            code = sys.exc_info()[1].args[0]
        if code not in WAITING and code != 0:
            self.ended(errno.errorcode.get(code, "code"))

    def ended(self, how):
        say("try", self.peer, self.at, how)
        if how == "open" and self.at == 0:
            self.is_open, self.left, self.end = True, b"s" * SMALL, now() + CARRY_SECONDS
        else:
            self.close()

    def carried(self, how):
        say("carry", self.peer, how)
        self.close()

    def close(self):
        self.end = 0
        if self.sock is not None:
            self.sock.close()

    def fileno(self):
        return self.sock.fileno()

    def is_over(self):
        """Whether its time is over, which it then reports."""
        if self.end and now() > self.end:
            if not self.is_open:
                self.ended("late")
            else:
                self.carried("stalled" if self.heard == b"1" else "unknown")
        return not self.end

    def is_writing(self):
        return not self.is_open or bool(self.left)

    def write(self):
        if not self.is_open:
            code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            self.ended(errno.errorcode.get(code, "code") if code else "open")
        else:
            self.left = self.left[self.sock.send(self.left[:65536]) :]

    def read(self):
        part = self.sock.recv(16)
        if not part:
            raise socket.error(errno.ECONNRESET, "")
        self.heard = (self.heard + part)[:16]
        if self.heard == b"1":
            self.left, self.end = b"l" * LARGE, now() + CARRY_SECONDS
        elif self.heard[-1:] == b"3":
            self.carried("passed")


def receive(sock, counts):
    """Count what comes: `1` answers the small message, `2` the first of the large, `3` its end."""
    before = counts[sock]
    part = len(sock.recv(65536))
    counts[sock] = before + part
    for least, answer in ((SMALL, b"1"), (SMALL + 1, b"2"), (SMALL + LARGE, b"3")):
        if before < least <= counts[sock]:
            sock.send(answer)
    if not part or counts[sock] >= SMALL + LARGE:
        del counts[sock]
        sock.close()


def main(address):
    signal.alarm(LIFE_SECONDS)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    first, last = map(int, words_of("/proc/sys/net/ipv4/ip_local_port_range") or (32768, 60999))
    first = max(first, 1024)
    listeners = listening(family, address, first, last)
    say("ready", first, last, *[each.getsockname()[1] for each in listeners])
    begun, lines, tries, counts, is_tried = b"", [], None, {}, False
    while True:
        active = [each for each in tries or () if not each.is_over()]
        if tries is not None and not active and not is_tried:
            is_tried = True
            say("tried")
        reading = [0] + listeners + list(counts) + [each for each in active if each.is_open]
        writing = [each for each in active if each.is_writing()]
        readable, writable, _ = select.select(reading, writing, [], 0.1)
        for each in writable + [each for each in readable if isinstance(each, Try)]:
            try:
                if each.end:
                    (each.write if each in writable and each.is_writing() else each.read)()
            except socket.error:
                if sys.exc_info()[1].args[0] not in WAITING:
                    each.carried("unknown")
        for each in [each for each in readable if each in listeners or each in counts]:
            try:
                if each in counts:
                    receive(each, counts)
                    continue
                accepted = each.accept()[0]
                if each is listeners[0] and len(counts) < MOST_CARRIED:
                    accepted.setblocking(False)
                    counts[accepted] = 0
                else:
                    accepted.close()
            except socket.error:
                if counts.pop(each, None) is not None:
                    each.close()
        if 0 in readable:
            part = os.read(0, 65536)
            if not part:
                return
            begun += part
            ended, _, begun = begun.rpartition(b"\n")
            for line in filter(None, ended.decode("ascii").split("\n")):
                if tries is not None:
                    say("listens")
                elif line != "go":
                    lines.append(line.split())
                else:
                    tries = [
                        Try((family, address), peer, at, (words[0], int(words[1 + at])))
                        for peer, words in enumerate(lines)
                        for at in range(3)
                    ]


main(sys.argv[1])
