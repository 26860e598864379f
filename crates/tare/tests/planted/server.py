"""A server with one fault at a time: what each is, the workload's option `fault` says.

It answers one request in each connection and closes it, so that connections are opened while load runs.
"""

import os
import random
import select
import socket
import sys
import time

PAGE = 4096
BODY = b"weighed\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(BODY), BODY)


def main():
    port, fault, amount = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    pages = 0
    if fault == "reads":
        pages = amount * 256
        with open("/data/pages", "wb") as file:
            for _ in range(pages // 256):
                file.write(os.urandom(256 * PAGE))
        data = os.open("/data/pages", os.O_RDONLY)
    log = os.open("/data/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", port))
    listener.listen(amount if fault == "backlog" else 1024)
    waiting = select.epoll()
    waiting.register(listener, select.EPOLLIN)
    connections = {}
    while True:
        for number, _ in waiting.poll():
            if number == listener.fileno():
                connection, _ = listener.accept()
                connections[connection.fileno()] = connection
                waiting.register(connection, select.EPOLLIN)
                continue
            connection = connections.pop(number)
            waiting.unregister(connection)
            connection.recv(4096)
            if fault == "sleeps":
                time.sleep(amount / 1e6)
            elif fault == "asks":
                # Of somebody who answers late, as a name server does.
                select.poll().poll(amount / 1e3)
            elif fault == "syncs":
                os.write(log, BODY)
                os.fsync(log)
            elif pages:
                os.pread(data, PAGE, random.randrange(pages) * PAGE)
            connection.sendall(ANSWER)
            connection.close()


main()
