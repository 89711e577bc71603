"""The admin port of a gateway that says what a test tells it to, around the page of the real one."""

import http.server
import json
import pathlib
import queue
import threading

RECORDED = pathlib.Path(__file__).parent / "data/status.json"


def recorded():
    return json.loads(RECORDED.read_text())


class RecordedApi:
    """Serves `page` at / and `status` at /v1/status and as the first event; tell() sends further events."""

    def __init__(self, page, headers, status):
        self.page, self.headers, self.status = page, headers, status
        self.listeners = []
        self.came = threading.Condition()  # a listener
        self.silent = threading.Event()  # set: nothing is answered
        api = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                api.answer(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, handler):
        if handler.path == "/":
            self.send(handler, 200, "text/html; charset=utf-8", self.page, self.headers)
        elif self.silent.is_set():
            self.send(handler, 503, "application/json", b"{}")
        elif handler.path == "/v1/status":
            self.send(handler, 200, "application/json", json.dumps(self.status).encode())
        elif handler.path == "/v1/events":
            self.stream(handler)
        else:
            self.send(handler, 404, "application/json", b"{}")

    def send(self, handler, code, kind, body, headers=None):
        handler.send_response(code)
        for name, value in ({"Content-Type": kind, "Content-Length": str(len(body))} | (headers or {})).items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    def stream(self, handler):
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        waiting = queue.Queue()
        waiting.put(("status", self.status))
        with self.came:
            self.listeners.append(waiting)
            self.came.notify_all()
        while (event := waiting.get()) is not None:
            name, data = event
            handler.wfile.write(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())
            handler.wfile.flush()

    def tell(self, name, data):
        """To whoever listens; waits for somebody who does."""
        with self.came:
            assert self.came.wait_for(lambda: self.listeners, timeout=30)
            for waiting in self.listeners:
                waiting.put((name, data))

    def cut(self):
        """Ends the streams, and answers nothing until `silent` is cleared."""
        self.silent.set()
        with self.came:
            for waiting in self.listeners:
                waiting.put(None)
            self.listeners.clear()

    def close(self):
        self.cut()
        self.server.shutdown()
        self.server.server_close()
