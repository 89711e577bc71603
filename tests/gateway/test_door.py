"""Who may come in: keys of clients, rates, TLS on both sides, and events for whoever watches."""

import hashlib
import http.client
import json
import ssl
import subprocess
import threading

import gateway_processes
import pytest

BODY = {"model": "kcc-lab", "messages": [{"role": "user", "content": "ask-1 words-2"}]}
TEXT = "ask-1.0 ask-1.1 "


def start(pool, folder, url, **spec):
    more = spec.pop("kernel", {})
    kernels = {"a": ("infer", url, more), "audit": ("audit", url, more)}
    policy = gateway_processes.policy_of(kernels, audit={"rate": 0, "probeRate": 1, "oncePerSession": False})
    kernels["last"] = ("fallback", url, more)
    return pool.gateway(folder / "gateway", kernels, policy=policy, **spec)


@pytest.fixture
def kernel(pool, tmp_path):
    (tmp_path / "gateway").mkdir()
    return pool.scripted(tmp_path, "a")


def test_only_known_keys_come_in(pool, tmp_path, kernel, until):
    keys = tmp_path / "gateway/keys.txt"
    keys.write_text(hashlib.sha256(b"first-key").hexdigest() + "\n")
    gateway = start(pool, tmp_path, kernel.url, clientKeys="keys.txt")

    def status(key):
        return gateway.ask("POST", "/v1/chat/completions", BODY, {"Authorization": key} if key else {}).status

    assert status("Bearer first-key") == 200
    for wrong in (None, "Bearer", "Bearer first-ke", "Bearer first-key2", "first-key", "Bearer " + keys.read_text().strip()):
        assert status(wrong) == 401, wrong
    assert kernel.counts["came"] == 1
    keys.write_text(hashlib.sha256(b"second-key").hexdigest() + "\n")
    gateway.reload()
    until(lambda: status("Bearer second-key") == 200)
    assert status("Bearer first-key") == 401
    assert b"first-key" not in b"".join(file.read_bytes() for file in (tmp_path / "gateway").rglob("*") if file.is_file())


def test_a_client_that_asks_too_often_hears_when_to_come_back(pool, tmp_path, kernel):
    gateway = start(pool, tmp_path, kernel.url, threads=1, limits={"requestsPerSecond": 2})
    replies = [gateway.ask("POST", "/v1/chat/completions", BODY) for _ in range(30)]
    refused = [reply for reply in replies if reply.status == 429]
    assert {reply.status for reply in replies} == {200, 429} and len(refused) > 10
    assert all(int(reply.headers["Retry-After"]) >= 1 and reply.json["error"]["code"] == "rate_limit_exceeded" for reply in refused)


def certificate(folder):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", folder / "key.pem", "-out",
                    folder / "cert.pem"], check=True, capture_output=True)  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # an old version is what is tried
def test_tls_towards_clients(pool, tmp_path, kernel):
    certificate(tmp_path / "gateway")
    gateway = start(pool, tmp_path, kernel.url, tls={"certificate": "cert.pem", "key": "key.pem"})
    assert gateway.url.startswith("https://")
    context = ssl.create_default_context(cafile=tmp_path / "gateway/cert.pem")
    for stream in (False, True):
        connection = http.client.HTTPSConnection(gateway.host, timeout=20, context=context)
        connection.request("POST", "/v1/chat/completions", json.dumps(BODY | {"stream": stream}), {"Content-Type": "application/json"})
        body = connection.getresponse().read()
        connection.close()
        assert body.endswith(b"data: [DONE]\n\n") if stream else json.loads(body)["choices"][0]["message"]["content"] == TEXT
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(tmp_path / "gateway/cert.pem")
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    connection = http.client.HTTPSConnection(gateway.host, timeout=20, context=old)
    with pytest.raises((ssl.SSLError, OSError)):
        connection.request("GET", "/v1/models")


@pytest.mark.parametrize("trusted", [True, False])
def test_tls_towards_kernels_is_verified(pool, tmp_path, kernel, trusted):
    certificate(tmp_path / "gateway")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "gateway/cert.pem", tmp_path / "gateway/key.pem")
    server = server_of(kernel.host, context)
    try:
        more = {"caFile": "cert.pem"} if trusted else {}
        gateway = start(pool, tmp_path, f"https://localhost:{server.server_port}", kernel=more)
        reply = gateway.ask("POST", "/v1/chat/completions", BODY)
        assert reply.status == (200 if trusted else 502), reply.body
    finally:
        server.shutdown()
        server.server_close()


def server_of(host, context):
    """HTTPS before a kernel that speaks HTTP."""
    import http.server

    class Front(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_POST(self):
            headers = {"Content-Type": "application/json", "x-request-id": self.headers.get("x-request-id", "none")}
            reply = gateway_processes.ask(host, "POST", self.path, self.rfile.read(int(self.headers["Content-Length"])), headers)
            self.send_response(reply.status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

    class Quiet(http.server.ThreadingHTTPServer):
        def handle_error(self, *_):  # a client that trusts nobody
            pass

    server = Quiet(("127.0.0.1", 0), Front)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def test_events_tell_of_a_change_as_it_is_decided(pool, tmp_path, kernel, until):
    gateway = start(pool, tmp_path, kernel.url)
    connection = http.client.HTTPConnection(gateway.admin, timeout=20)
    connection.request("GET", "/v1/events", headers={"Accept": "text/event-stream"})
    response = connection.getresponse()
    assert response.status == 200 and response.headers["Content-Type"].startswith("text/event-stream")

    def event():
        lines = []
        while line := response.readline().strip():
            lines.append(line.decode())
        return dict(line.split(": ", 1) for line in lines if ": " in line)

    first = event()
    assert first["event"] == "status" and json.loads(first["data"])["kccGateway"] == 1
    gateway.reload()
    for _ in range(20):
        if (seen := event()).get("event") == "change":
            break
    assert json.loads(seen["data"])["kind"] == "reload"
    connection.close()
