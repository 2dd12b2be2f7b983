"""Listens on three ports of an address, and connects to those of the other nodes.

It runs in any Python from 2.6 on, and speaks with the controller: it prints `ready FIRST LAST PORT
PORT PORT`, reads lines `ADDRESS PORT PORT PORT` and `go`, prints how each connection ended, then
`tried`, and at the end of its stdin `listens`.
"""

import sys

sys.path = [folder for folder in sys.path if folder]

import errno
import os
import signal
import socket
import threading

# Where a job may be about to listen: the ports of torch, Megatron, Ray and examples.
MASTERS = (1234, 6000, 6379, 12345, 12355, 23456, 29400, 29500, 29501)
LIFE_SECONDS, CONNECT_SECONDS, CARRY_SECONDS = 20, 4, 3
# The first port's connections carry two messages: one that fits into any packet, and a large one.
SMALL, LARGE = 512, 256 * 1024
ADDRESS = sys.argv[1]
FAMILY = socket.AF_INET6 if ":" in ADDRESS else socket.AF_INET


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
    for word in words_of("/proc/net/tcp") + words_of("/proc/net/tcp6"):
        address, _, port = word.partition(":")
        if len(address) in (8, 32) and len(port) == 4:
            kept.add(int(port, 16))
    return kept


def listener(ports):
    """Return a listener on the first of some ports that is free."""
    for port in ports:
        sock = socket.socket(FAMILY, socket.SOCK_STREAM)
        try:
            sock.bind((ADDRESS, port))
            sock.listen(128)
            return sock
        except socket.error:
            code = sys.exc_info()[1].args[0]
            if code != errno.EADDRINUSE:
                sys.exit("cannot listen at %s: %s" % (ADDRESS, os.strerror(code)))
    sys.exit("no free port")


def begin(work, *arguments):
    thread = threading.Thread(target=work, args=arguments)
    thread.daemon = True
    thread.start()
    return thread


def accept(sock, carries):
    """Accept and close; of the first port also count what comes, once at a time."""
    while True:
        accepted = sock.accept()[0]
        if carries and threading.active_count() < 500:
            begin(receive, accepted)
        else:
            accepted.close()


def receive(sock):
    """Answer the small message with `1`, the first of the large one with `2`, its end with `3`."""
    count, answers = 0, [(SMALL, b"1"), (SMALL + 1, b"2"), (SMALL + LARGE, b"3")]
    try:
        sock.settimeout(2 * CARRY_SECONDS)
        while answers:
            part = len(sock.recv(65536))
            count += part
            while answers and count >= answers[0][0]:
                sock.send(answers.pop(0)[1])
            if not part:
                break
    except socket.error:
        pass
    sock.close()


def connect(peer, at, target):
    """Connect to a port of a peer, and report how that ended."""
    try:
        sock = socket.socket(FAMILY, socket.SOCK_STREAM)
        sock.settimeout(CONNECT_SECONDS)
        sock.bind((ADDRESS, 0))
        sock.connect(target)
        say("try", peer, at, "open")
        if at == 0:
            say("carry", peer, carried(sock))
        sock.close()
    except socket.timeout:
        say("try", peer, at, "late")
    except socket.error:
        say("try", peer, at, errno.errorcode.get(sys.exc_info()[1].args[0], "code"))


def carried(sock):
    """Send the messages; return whether the large one passed where the small one did."""
    heard = b""
    try:
        sock.settimeout(CARRY_SECONDS)
        sock.sendall(b"s" * SMALL)
        heard = sock.recv(1)
        sock.sendall(b"l" * LARGE)
        for _ in range(2):
            heard += sock.recv(1)
    except socket.error:
        pass
    return {b"123": "passed", b"1": "stalled"}.get(heard, "unknown")


def main():
    signal.alarm(LIFE_SECONDS)
    first, last = map(int, words_of("/proc/sys/net/ipv4/ip_local_port_range") or (32768, 60999))
    first = max(first, 1024)
    kept, third = left_alone(), (last - first + 1) // 3
    listeners = []
    for low in (first, first + third, first + 2 * third):
        turned = (low + (os.getpid() * 7 + step) % third for step in range(third))
        listeners.append(listener(port for port in turned if port not in kept))
    for sock in listeners:
        begin(accept, sock, sock is listeners[0])
    say("ready", first, last, *[sock.getsockname()[1] for sock in listeners])
    tries = []
    for peer, line in enumerate(iter(sys.stdin.readline, "")):
        words = line.split()
        if words != ["go"]:
            tries += [(peer, at, (words[0], int(words[1 + at]))) for at in range(3)]
            continue
        for thread in [begin(connect, *each) for each in tries]:
            thread.join()
        say("tried")
    say("listens")
    os._exit(0)


main()
