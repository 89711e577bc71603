#!/usr/bin/env python3
"""Recorded conversations between kcc and a server, and a server that holds them again.

    exchange.py record HOST:PORT FILE    a proxy before a real server; writes what passes through it
    exchange.py replay FILE              a server that answers as the one recorded, and nothing else

Prints its address as the first line and ends when stdin is closed. FILE is one JSON object whose
`exchanges` are {method, path, request, status, response}. A question is answered if method, path and JSON body are
those recorded; `cache_salt`, which is new in every run, does not count. Anything else is status 400 with what differs: kcc
must send what the server of the recording understood.
"""

import http.server
import json
import pathlib
import sys
import threading
import urllib.error
import urllib.request


def without_salt(body):
    return {name: value for name, value in body.items() if name != "cache_salt"} if body else body


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, text):
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def handle_one(self, body):
        self.reply(*self.server.answer(self.command, self.path, body))

    def do_GET(self):
        self.handle_one(None)

    def do_POST(self):
        self.handle_one(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))


class Replay(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, file):
        super().__init__(("127.0.0.1", 0), Handler)
        self.exchanges = json.loads(pathlib.Path(file).read_text())["exchanges"]

    def answer(self, method, path, body):
        for exchange in self.exchanges:
            if (exchange["method"], exchange["path"], without_salt(exchange["request"])) == (
                    method, path, without_salt(body)):
                return exchange["status"], json.dumps(exchange["response"])
        return 400, json.dumps({"error": {"message": f"not recorded: {method} {path} {json.dumps(body)}"}})


class Record(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, target, file):
        super().__init__(("127.0.0.1", 0), Handler)
        self.target, self.file, self.exchanges, self.lock = target, pathlib.Path(file), [], threading.Lock()

    def answer(self, method, path, body):
        asked = urllib.request.Request(f"http://{self.target}{path}", method=method,
                                       data=None if body is None else json.dumps(body).encode(),
                                       headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(asked) as said:
                status, text = said.status, said.read().decode()
        except urllib.error.HTTPError as refused:
            status, text = refused.code, refused.read().decode()
        with self.lock:
            self.exchanges.append({"method": method, "path": path, "request": without_salt(body), "status": status,
                                   "response": json.loads(text)})
            self.file.write_text(json.dumps({"exchanges": self.exchanges}, indent=1) + "\n")
        return status, text


def main():
    server = {"record": Record, "replay": Replay}[sys.argv[1]](*sys.argv[2:])
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"127.0.0.1:{server.server_address[1]}", flush=True)
    sys.stdin.read()
    server.shutdown()


if __name__ == "__main__":
    main()
