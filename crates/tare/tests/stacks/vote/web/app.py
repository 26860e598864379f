"""Queues a vote for each visit, and shows how many are stored."""

import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Queue:
    """Redis, as far as it is needed here."""

    def __init__(self):
        self.socket = socket.create_connection((os.environ["QUEUE_HOST"], 6379))
        self.lines = self.socket.makefile("rb")
        self.lock = threading.Lock()

    def ask(self, *words):
        text = "*%d\r\n" % len(words) + "".join("$%d\r\n%s\r\n" % (len(word), word) for word in words)
        with self.lock:
            self.socket.sendall(text.encode())
            line = self.lines.readline().decode().strip()
            if line.startswith("$") and line != "$-1":
                return self.lines.readline().decode().strip()
            return line[1:]


class Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        QUEUE.ask("RPUSH", "votes", "cats")
        body = ("<p>votes stored: %s</p>\n" % QUEUE.ask("GET", "stored")).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


QUEUE = Queue()
ThreadingHTTPServer(("0.0.0.0", 80), Page).serve_forever()
