import http.server
import pathlib

# What a program does that expects its home: it keeps a file there.
notes = pathlib.Path.home() / "notes"
notes.write_text("hello\n")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = notes.read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words):
        pass


http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
