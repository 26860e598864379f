"""Takes an order for each visit, and shows how many there are."""

import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg2


def connect():
    for _ in range(60):
        try:
            return psycopg2.connect(host=os.environ["DB_HOST"], user="postgres", dbname="postgres")
        except psycopg2.OperationalError:
            time.sleep(0.5)
    raise SystemExit("the database does not answer")


class Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        with LOCK:
            CURSOR.execute("INSERT INTO orders DEFAULT VALUES RETURNING id")
            body = ("<p>order %d</p>\n" % CURSOR.fetchone()[0]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


DATABASE = connect()
DATABASE.autocommit = True
LOCK, CURSOR = threading.Lock(), DATABASE.cursor()
CURSOR.execute("CREATE TABLE IF NOT EXISTS orders (id bigserial PRIMARY KEY, at timestamptz DEFAULT now())")
ThreadingHTTPServer(("0.0.0.0", 8000), Page).serve_forever()
