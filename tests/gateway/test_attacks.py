"""Hostile clients and kernels: each has its documented outcome, and the next request is served as ever."""

import contextlib
import gzip
import json
import pathlib
import re
import socket
import time

import attacks
import gateway_processes
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKEN = "correct-horse"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("attacks")


@pytest.fixture(scope="module")
def kernel(module_pool, folder):
    return module_pool.scripted(folder, "a")


@pytest.fixture(scope="module")
def spare(module_pool, folder):
    return module_pool.scripted(folder, "b")


@pytest.fixture(scope="module")
def gateway(module_pool, folder, kernel, spare):
    kernels = {"a": ("infer", kernel.url), "b": ("guard", spare.url), "audit": ("audit", spare.url)}
    policy = gateway_processes.policy_of(kernels, audit={"rate": 1, "probeRate": 1, "oncePerSession": False})
    return module_pool.gateway(folder / "gateway", kernels, policy=policy, token=TOKEN, session=["header:x-session-id"],
                               limits={"body": "128KiB", "headers": "16KiB", "connections": 200},
                               times={"request": "1s", "idle": "1s", "write": "1s", "firstByte": "5s"})  # fmt: skip


@pytest.fixture(autouse=True)
def well(kernel, gateway):
    kernel.behave()
    yield
    kernel.behave()
    reply = ask(gateway)
    assert (reply.status, reply.headers["x-kcc-kernel"]) == (200, "a"), "the gateway serves no more"


def ask(gateway, name="ask-9", headers=None, **more):
    body = {"model": "kcc-lab", "messages": [{"role": "user", "content": f"{name} words-2"}]} | more
    return gateway.ask("POST", "/v1/chat/completions", body, headers)


def connect(gateway):
    host, port = gateway.host.split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def receive(connection, seconds=3):
    """What comes until the other side closes, or says nothing more for a while; and whether it closed."""
    connection.settimeout(seconds)
    received = b""
    with contextlib.suppress(TimeoutError):
        while True:
            try:
                part = connection.recv(65536)
            except ConnectionResetError:
                return received, True
            if not part:
                return received, True
            received += part
    return received, False


def exchange(gateway, data, seconds=0.7):
    with connect(gateway) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(data)
        return receive(connection, seconds)


def statuses(received):
    """Of all answers: one may begin right behind the body of another."""
    return [int(status) for status in re.findall(rb"(?:^|\n|\})HTTP/1\.1 (\d{3}) ", received)]


@pytest.mark.parametrize("attack", attacks.RAW, ids=lambda attack: attack.title)
def test_bytes(gateway, kernel, spare, attack):
    before = kernel.counts["came"] + spare.counts["came"]
    received, closed = exchange(gateway, attack.bytes)
    seen = statuses(received)
    assert seen and seen[0] in attack.statuses, (seen, received[:300])
    reached = kernel.counts["came"] + spare.counts["came"] - before
    if seen[0] != 200:
        assert reached == 0, "a kernel got a request that was refused"
        assert b'"error"' in received and len(seen) == 1, received
    if attack.closes:
        assert closed and len(seen) == 1, "what follows is taken for another request"
    assert reached == (seen.count(200) if attack.reaches else 0)
    assert b"secret" not in received and b"root:" not in received and b"kcc-lab\"" not in received.split(b"\r\n\r\n")[0]


@pytest.mark.parametrize("part", ["head", "body"])
def test_what_comes_byte_by_byte_is_not_waited_for(gateway, kernel, part):
    whole = attacks.post(attacks.length())
    cut = 0 if part == "head" else len(whole) - len(attacks.BODY)
    before, began, closed = kernel.counts["came"], time.monotonic(), False
    with connect(gateway) as connection:
        connection.sendall(whole[:cut])
        connection.settimeout(0.05)
        for byte in whole[cut : cut + 80]:
            try:
                connection.sendall(bytes([byte]))
                got = connection.recv(65536)
                assert not got or statuses(got) == [408], got
                closed = True
            except TimeoutError:
                continue
            except (BrokenPipeError, ConnectionResetError):
                closed = True
            break
    assert closed and time.monotonic() - began < 3.5, "eighty bytes took four seconds, and all were read"
    assert kernel.counts["came"] == before


def test_a_connection_that_sends_nothing_is_closed(gateway):
    with connect(gateway) as connection:
        began = time.monotonic()
        received, closed = receive(connection, 5)
        assert closed and time.monotonic() - began < 4 and statuses(received) in ([], [408])


def test_a_client_that_does_not_read_is_left(gateway, kernel, until):
    """What a client does not take is held by the system's buffers and the kernel, not by the gateway."""
    left, event = kernel.counts["left"], {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "kcc-lab"}
    event["choices"] = [{"index": 0, "delta": {"content": "x" * 60_000}, "logprobs": None, "finish_reason": None}]
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    kernel.behave(mode="raw", bytes=head + f"data: {json.dumps(event)}\n\n" * 200)
    body = attacks.BODY.replace(b"{", b'{"stream":true,', 1)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        host, port = gateway.host.split(":")
        connection.connect((host, int(port)))
        before = gateway.memory_mib
        connection.sendall(attacks.post(attacks.length(body), body=body))
        until(lambda: kernel.counts["left"] > left, 15, "the kernel still writes for a client that does not read")
        assert gateway.memory_mib < before + 24


def large(name, *heads, stream=False):
    text, pad = f"ask-{name} words-3", {"pad": "x" * 20_000}
    body = json.dumps({"model": "kcc-lab", "messages": [{"role": "user", "content": text}], "stream": stream, "metadata": pad}).encode()
    return attacks.post(*heads, attacks.length(body), body=body)


@pytest.mark.parametrize("stream", [False, True])
def test_large_requests_behind_a_request(gateway, kernel, stream):
    kernel.behave(wait=0.2)
    heads = [()] * 7 + [(b"Connection: close\r\n",)]
    with connect(gateway) as connection:
        connection.sendall(b"".join(large(f"{i}z", *head, stream=stream) for i, head in enumerate(heads)))
        received, closed = receive(connection, 10)
    assert closed and received.count(b"HTTP/1.1 200 ") == len(heads)
    places = [received.find(b"%dz.2 " % i) for i in range(len(heads))]
    assert places == sorted(places) and places[0] > 0, "each answer has its last word, in turn"


def test_bytes_behind_a_request_that_is_the_last_of_its_connection(gateway, kernel):
    """Closed with bytes unread, a connection is reset, and the answer may be lost."""
    with connect(gateway) as connection:
        connection.sendall(large("last", b"Connection: close\r\n") + b"x" * 3_000_000)
        time.sleep(0.3)
        received, closed = receive(connection, 10)
    assert closed and statuses(received) == [200] and b"last.2 " in received


@pytest.mark.parametrize("behind", [b"", large("never")])
def test_a_client_that_ends_its_side_before_it_has_its_answer(gateway, kernel, behind):
    kernel.behave(mode="hang")
    came = kernel.counts["came"]
    with connect(gateway) as connection:
        connection.sendall(large("gone") + behind)
        connection.shutdown(socket.SHUT_WR)
        received, closed = receive(connection, 4)
    assert closed and not received
    assert kernel.counts["came"] <= came + 1


def test_more_connections_than_allowed(gateway):
    opened = []
    try:
        first = connect(gateway)
        opened.append(first)
        for _ in range(260):
            opened.append(connect(gateway))
        received, closed = receive(opened[-1], 1)
        assert closed and statuses(received) in ([], [503])
        first.sendall(attacks.post(attacks.length()))
        assert statuses(receive(first, 0.7)[0])[:1] == [200]
    finally:
        for connection in opened:
            connection.close()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:  # until the gateway has seen that they left
        with contextlib.suppress(OSError):
            if ask(gateway).status == 200:
                return
        time.sleep(0.05)
    raise AssertionError("the places of closed connections are not free again")


def raw_answer(head, body=b""):
    return (head + f"Content-Length: {len(body)}\r\n\r\n").encode().decode("latin-1") + body.decode("latin-1")


def test_a_gzip_bomb_from_a_kernel_is_not_unpacked(gateway, kernel, until):
    bomb = gzip.compress(bytes(64 << 20), 9)
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
    before, decided = gateway.memory_mib, len(gateway.decisions())
    kernel.behave(mode="raw", bytes=raw_answer(head, bomb))
    reply = ask(gateway)
    assert (reply.status, reply.headers["x-kcc-kernel"]) == (200, "b")
    assert gateway.memory_mib < before + 32
    until(lambda: len(gateway.decisions()) > decided, 5, "the sampled request is neither evidence nor lost")


@pytest.mark.parametrize("answer", [
    "HTTP/1.1 200 OK\r\n" + "X-A: " + "a" * 200_000,
    "HTTP/1.1 200 OK\r\n" + "X-A: a\r\n" * 20_000,
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 9\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX-A: a\x00b\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 999999 OK\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nSet-Cookie : a\r\nContent-Length: 0\r\n\r\n",
])  # fmt: skip
def test_a_kernel_that_breaks_the_protocol_is_passed_over(gateway, kernel, answer):
    kernel.behave(mode="raw", bytes=answer)
    reply = ask(gateway)
    assert (reply.status, reply.headers["x-kcc-kernel"]) == (200, "b")
    assert reply.headers["Set-Cookie"] is None and reply.headers["X-A"] is None


def test_what_a_kernel_says_of_itself_is_not_the_gateways_word(gateway, kernel):
    kernel.behave(headers={"x-kcc-kernel": "audit", "x-kcc-stage": "shadow", "X-Request-Id": "forged", "Connection": "x-hop", "x-hop": "1"})
    reply = ask(gateway)
    assert reply.headers.get_all("x-kcc-kernel") == ["a"] and reply.headers.get_all("x-kcc-stage") == ["full"]
    assert len(reply.headers.get_all("x-request-id")) == 1 and reply.headers["x-hop"] is None


@pytest.mark.parametrize("name", ["x\r\nSet-Cookie: a=b", "x\nSet-Cookie: a", "\u0000", "kcc-lab\r\n", "a" * 100_000, "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")])
def test_a_models_name_makes_no_header(gateway, name):
    reply = ask(gateway, model=name)
    assert reply.status in (400, 404) and reply.headers["Set-Cookie"] is None
    assert reply.json["error"]["message"] and len(reply.body) < 4096


def test_a_requests_id_makes_no_header(gateway):
    for value in (b"a\rSet-Cookie: b", b"a\x00b", b"a" * 9000, b"\xff\xfe", b'"}\\', b"../../x"):
        received, _ = exchange(gateway, attacks.post(b"x-request-id: " + value + b"\r\n", attacks.length()))
        head = received.split(b"\r\n\r\n")[0]
        assert statuses(received) in ([200], [400]), received[:200]
        assert b"Set-Cookie" not in head and b"\x00" not in head and len(head) < 2000
        assert all(line.isascii() for line in head.split(b"\r\n"))


@pytest.mark.parametrize("members", ['"model":"kcc-lab","model":"other"', '"model":"other","model":"kcc-lab"',
                                     '"model":"kcc-lab","stream":false,"stream":true', '"model":"kcc-lab","mo\\u0064el":"other"'])  # fmt: skip
def test_a_body_that_says_two_things(gateway, kernel, members):
    """The gateway must not decide by one of two members where the kernel reads the other."""
    body = ("{" + members + ',"messages":[{"role":"user","content":"ask-3 words-2"}]}').encode()
    reply = gateway.ask("POST", "/v1/chat/completions", body)
    if reply.status == 200:  # Python's reader takes the last, as the kernel behind it does
        last = json.loads(body)
        assert last["model"] == "kcc-lab"
        assert reply.headers["Content-Type"].startswith("text/event-stream" if last.get("stream") else "application/json")
    else:
        assert reply.status in (400, 404)


ADMIN = ["/v1/status", "/v1/events", "/v1/health", "/v1/verdict", "/metrics"]


def admin(gateway, path, method="GET", body=None, **headers):
    return gateway_processes.ask(gateway.admin, method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})


@pytest.mark.parametrize("path", ADMIN)
def test_the_admin_port_asks_for_its_token(gateway, path):
    assert admin(gateway, path).status == 401
    for wrong in ("Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN.upper()}"):
        assert admin(gateway, path, Authorization=wrong).status == 401, wrong
    # In an address it is only good for the cookie that takes its place, and says nothing itself.
    reply = admin(gateway, path + f"?token={TOKEN}")
    assert reply.status in (303, 401) and b"kernels" not in reply.body
    if path != "/v1/events":
        assert admin(gateway, path, Authorization=f"Bearer {TOKEN}").status == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "evil.example:PORT", "0.0.0.0", ""])
def test_the_admin_port_answers_under_its_own_name_alone(gateway, host):
    port = gateway.admin.split(":")[1]
    for path in ("/", "/healthz", "/v1/status"):
        reply = admin(gateway, path, Authorization=f"Bearer {TOKEN}", Host=host.replace("PORT", port))
        assert reply.status in (400, 403), (path, reply.status)
    assert admin(gateway, "/healthz", Host=f"localhost:{port}").status == 200


def test_a_whole_url_on_the_admin_port_counts_as_its_host(gateway):
    port = gateway.admin.split(":")[1]
    for path in ("/healthz", "/v1/status"):
        assert admin(gateway, f"http://evil.example{path}", Authorization=f"Bearer {TOKEN}", Host=f"127.0.0.1:{port}").status == 403
        assert admin(gateway, f"http://localhost:{port}{path}", Authorization=f"Bearer {TOKEN}", Host="evil.example").status == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1.evil.example"])
def test_another_sites_page_reads_and_changes_nothing(gateway, origin):
    bearer = f"Bearer {TOKEN}"
    for method, path, body in (("GET", "/v1/status", None), ("POST", "/v1/status", "a=b"), ("OPTIONS", "/v1/status", None)):
        reply = admin(gateway, path, method, body, Authorization=bearer, Origin=origin, Content_Type="text/plain")
        assert reply.status in (403, 404, 405, 415), (method, reply.status)
        assert reply.headers["Access-Control-Allow-Origin"] is None
    own = admin(gateway, "/v1/status", Authorization=bearer, Origin=f"http://{gateway.admin}")
    assert own.status == 200


def test_a_form_posted_across_sites_changes_nothing(gateway):
    before = gateway.status["route"]
    for path in ["/", *ADMIN]:
        reply = admin(gateway, path, "POST", "a=b", Content_Type="application/x-www-form-urlencoded", Sec_Fetch_Site="cross-site")
        assert reply.status in (401, 403, 404, 405, 415), (path, reply.status)
    assert gateway.status["route"] == before


def test_the_dashboard_is_framed_by_nobody(gateway):
    reply = admin(gateway, "/")
    assert reply.status == 200
    policy = reply.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in policy and "unsafe-inline" not in policy.replace("style-src 'unsafe-inline'", "")
    assert reply.headers["X-Content-Type-Options"] == "nosniff"


def test_the_page_says_what_becomes_of_each():
    page = (ROOT / "docs/gateway.md").read_text()
    rows = {attack.title: attack.outcome for attack in attacks.RAW} | attacks.OTHER
    missing = [f"| {title} | {outcome} |" for title, outcome in rows.items() if f"| {title} | {outcome} |" not in page]
    assert not missing, "\n".join(missing)
