"""A server of several workers with one hidden fault at a time: what each is, the option `fault` says.

It keeps connections, and asks somebody else for half a millisecond in each request, as most services do.
"""

import fcntl
import mmap
import os
import random
import select
import socket
import sys
import time

WORKERS = 4
# Of the load.
CONNECTIONS = 16
PAGE = 4096
LARGE = 64 << 20
BODY = b"weighed\n"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n" % len(BODY)


class Fault:
    """Does in each request what it is called."""

    def __init__(self, name, amount):
        self.name, self.amount = name, amount
        self.lock = os.open("/data/lock", os.O_RDWR | os.O_CREAT)
        self.log = os.open("/data/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        if name in ("huge", "small"):
            self.memory = mmap.mmap(-1, LARGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self.memory.madvise(mmap.MADV_HUGEPAGE if name == "huge" else mmap.MADV_NOHUGEPAGE)
            for at in range(0, LARGE, PAGE):
                self.memory[at] = 1
        if name == "hands":
            self.stages = [socket.socketpair() for _ in range(amount)]
            for ours, theirs in self.stages:
                if os.fork() == 0:
                    while theirs.send(theirs.recv(1)):
                        pass

    def ask(self):
        select.poll().poll(0.5)

    def work(self):
        if self.name == "lock":
            fcntl.flock(self.lock, fcntl.LOCK_EX)
            self.ask()
            fcntl.flock(self.lock, fcntl.LOCK_UN)
            return
        self.ask()
        if self.name == "forks":
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
        elif self.name == "touches":
            with mmap.mmap(-1, self.amount * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
                for at in range(0, self.amount * PAGE, PAGE):
                    memory[at] = 1
        elif self.name == "hands":
            for ours, _ in self.stages:
                ours.send(b"x")
                ours.recv(1)
        elif self.name == "spins":
            sum(range(self.amount))
        elif self.name == "calls":
            for _ in range(self.amount):
                os.getppid()
                os.stat("/data")
        elif self.name == "writes":
            os.write(self.log, b"x" * self.amount)
        elif self.name in ("huge", "small"):
            memory = self.memory
            for _ in range(self.amount):
                memory[int(random.random() * LARGE)]


def serve(listener, fault, share):
    """Serves until it is ended; `share` connections are its part, for one worker that is awake would take them all."""
    waiting = select.epoll()
    waiting.register(listener, select.EPOLLIN | select.EPOLLEXCLUSIVE)
    connections = {}

    def let_go(number):
        waiting.unregister(number)
        connections.pop(number).close()
        if len(connections) == share - 1:
            waiting.register(listener, select.EPOLLIN | select.EPOLLEXCLUSIVE)

    paused = time.monotonic()
    while True:
        for number, _ in waiting.poll():
            if number == listener.fileno():
                try:
                    connection, _ = listener.accept()
                except BlockingIOError:
                    continue
                if fault.name != "pieces":
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if fault.name == "paced":
                    connection.setsockopt(socket.SOL_SOCKET, 47, fault.amount)
                connections[connection.fileno()] = connection
                waiting.register(connection, select.EPOLLIN)
                if len(connections) == share:
                    waiting.unregister(listener)
                continue
            connection = connections.get(number)
            if connection is None:
                continue
            try:
                asked = connection.recv(4096)
            except ConnectionError:
                asked = b""
            if not asked:
                let_go(number)
                continue
            if fault.name == "pauses" and time.monotonic() - paused > 0.4:
                while time.monotonic() - paused < 0.4 + fault.amount / 1e3:
                    pass
                paused = time.monotonic()
            fault.work()
            try:
                if fault.name == "pieces":
                    connection.send(HEAD + b"\r\n")
                    connection.send(BODY)
                elif fault.name == "closes":
                    connection.send(HEAD + b"Connection: close\r\n\r\n" + BODY)
                    let_go(number)
                else:
                    connection.send(HEAD + b"\r\n" + BODY)
            except ConnectionError:
                pass


def main():
    port, name, amount = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", port))
    listener.listen(1024)
    listener.setblocking(False)
    workers = amount if name == "workers" else WORKERS
    for _ in range(workers - 1):
        if os.fork() == 0:
            break
    serve(listener, Fault(name, amount), CONNECTIONS // workers)


main()
