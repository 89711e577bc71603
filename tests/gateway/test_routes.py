"""Sessions, the canary's share, and what happens when a kernel fails."""

import http.client
import json

import gateway_processes
import pytest

SHARE = 0.3


def say(gateway, words=3, session=None, stream=False, name="ask-1", path="/v1/chat/completions", **more):
    headers = {"x-session-id": session} if session else {}
    body = {"model": "kcc-lab", "messages": [{"role": "user", "content": f"{name} words-{words}"}], "stream": stream}
    return gateway.ask("POST", path, body | more, headers)


def expected(words, name="ask-1"):
    return "".join(f"{name}.{i} " for i in range(words))


def content(reply):
    return reply.json["choices"][0]["message"]["content"]


def test_a_session_stays_and_the_canary_has_its_share(scripted, pool, tmp_path):
    canary = pool.scripted(tmp_path, "canary")
    gateway = scripted.gateway(more={"canary": ("infer", canary.url)}, canary={"kernel": "canary", "share": SHARE},
                               session=["header:x-session-id", "body:user"])  # fmt: skip
    count = 400
    first = [say(gateway, session=f"s{i}").headers["x-kcc-kernel"] for i in range(count)]
    assert set(first) == {"a", "canary"}
    share = first.count("canary") / count
    assert abs(share - SHARE) < 4 * (SHARE * (1 - SHARE) / count) ** 0.5
    assert [say(gateway, session=f"s{i}").headers["x-kcc-kernel"] for i in range(100)] == first[:100]
    by_user = [say(gateway, user=f"s{i}").headers["x-kcc-kernel"] for i in range(20)]
    assert by_user == [say(gateway, user=f"s{i}").headers["x-kcc-kernel"] for i in range(20)]
    assert gateway.status["route"]["canary"] == "canary"


def test_without_a_session_every_request_is_its_own(scripted, pool, tmp_path):
    canary = pool.scripted(tmp_path, "canary")
    gateway = scripted.gateway(more={"canary": ("infer", canary.url)}, canary={"kernel": "canary", "share": 0.5})
    assert {say(gateway).headers["x-kcc-kernel"] for _ in range(60)} == {"a", "canary"}


FAILURES = [
    ({"mode": "status", "code": 500}, False), ({"mode": "status", "code": 503}, False), ({"mode": "status", "code": 429}, False),
    ({"mode": "refuse"}, False), ({"mode": "half-head"}, False), ({"mode": "garbage"}, False), ({"mode": "hang"}, False),
    ({"mode": "status", "code": 500}, True), ({"mode": "status", "code": 429}, True), ({"mode": "refuse"}, True),
    ({"mode": "half-head"}, True), ({"mode": "hang"}, True), ({"mode": "cut", "after": 0}, True),
    ({"mode": "cut", "after": 1}, True),  # the role alone is no content
    ({"mode": "stall", "after": 0}, True),
]  # fmt: skip


@pytest.mark.parametrize(("how", "stream"), FAILURES)
def test_before_content_another_kernel_answers(scripted, how, stream):
    gateway = scripted.gateway(times={"firstByte": "400ms", "between": "400ms"})
    scripted.kernels["a"].behave(**how)
    reply = say(gateway, stream=stream)
    assert (reply.status, reply.headers["x-kcc-kernel"]) == (200, "b")
    if stream:
        texts = [json.loads(event.removeprefix("data: ")) for event in reply.body.decode().split("\n\n") if event and "[DONE]" not in event]
        assert "".join(text["choices"][0]["delta"].get("content", "") for text in texts) == expected(3)
        assert reply.body.endswith(b"data: [DONE]\n\n")
    else:
        assert content(reply) == expected(3)
    assert scripted.kernels["a"].counts["came"] == 1 and scripted.kernels["b"].counts["whole"] == 1
    scripted.kernels["a"].behave()
    assert say(gateway).headers["x-kcc-kernel"] == "a"  # one failure moves one request, no route


def test_a_kernel_that_does_not_listen(scripted):
    scripted.kernels["a"].kill()
    gateway = scripted.gateway()
    for stream in (False, True):
        reply = say(gateway, stream=stream)
        assert (reply.status, reply.headers["x-kcc-kernel"]) == (200, "b")


def test_a_refusal_of_the_request_is_no_failure(scripted):
    gateway = scripted.gateway()
    scripted.kernels["a"].behave(mode="status", code=400)
    reply = say(gateway)
    assert (reply.status, reply.headers["x-kcc-kernel"]) == (400, "a")
    assert reply.json["error"]["message"] == "as asked for"
    assert scripted.kernels["b"].counts["came"] == 0


def test_the_last_kernels_own_words_or_an_error_where_all_fail(scripted):
    gateway = scripted.gateway()
    for kernel in scripted.kernels.values():
        kernel.behave(mode="refuse")
    reply = say(gateway)
    assert reply.status in (502, 503) and set(reply.json["error"]) == {"message", "type", "param", "code"}
    came = [kernel.counts["came"] for kernel in scripted.kernels.values()]
    assert sum(came) == 2  # the first, and one retry
    reply = say(gateway, stream=True)
    assert reply.status in (502, 503) and reply.json["error"]["message"]


def test_no_retry_where_none_is_configured(scripted):
    gateway = scripted.gateway(limits={"retries": 0})
    scripted.kernels["a"].behave(mode="refuse")
    assert say(gateway).status in (502, 503)
    assert scripted.kernels["b"].counts["came"] == 0


@pytest.mark.parametrize("how", [{"mode": "cut", "after": 3}, {"mode": "stall", "after": 3}])
def test_after_content_the_client_hears_of_it_in_the_stream(scripted, how):
    gateway = scripted.gateway(times={"between": "400ms"})
    scripted.kernels["a"].behave(**how)
    stream = gateway.stream(model="kcc-lab", messages=[{"role": "user", "content": "ask-1 words-9"}])
    assert (stream.status, stream.headers["x-kcc-kernel"]) == (200, "a")
    events = list(stream)
    assert "[DONE]" not in events
    error = json.loads(events[-1])["error"]
    assert set(error) == {"message", "type", "param", "code"}
    texts = [json.loads(event)["choices"][0]["delta"]["content"] for event in events[:-1]]
    assert "".join(texts) == expected(2)  # the event with the role came before
    assert scripted.kernels["b"].counts["came"] == 0
    stream.close()


def test_half_an_answer_never_looks_whole(scripted):
    gateway = scripted.gateway()
    scripted.kernels["a"].behave(mode="cut")
    try:
        reply = say(gateway)
    except (ConnectionError, http.client.HTTPException):
        return  # the client sees that it broke off
    assert (reply.status, reply.headers["x-kcc-kernel"], content(reply)) == (200, "b", expected(3))


def test_a_client_that_leaves_frees_the_kernel(pool, tmp_path, until):
    slow = pool.scripted(tmp_path, "slow", pace=20)
    kernels = {"slow": ("infer", slow.url), "audit": ("audit", slow.url)}
    gateway = pool.gateway(tmp_path / "gateway", kernels, policy=gateway_processes.policy_of(kernels, audit={"rate": 0}))
    stream = gateway.stream(model="kcc-lab", messages=[{"role": "user", "content": "ask-1 words-500"}])
    assert stream.next() and stream.next()
    stream.close()
    until(lambda: slow.counts["left"] == 1, 5, "the kernel still writes to nobody")
    assert slow.counts["came"] == 1 and slow.counts["whole"] == 0
    assert say(gateway).status == 200


def test_tokens_pass_at_once(pool, tmp_path):
    """A chunk reaches the client before the next is made, sampled too."""
    import time

    slow = pool.scripted(tmp_path, "slow", pace=100)
    kernels = {"slow": ("infer", slow.url), "audit": ("audit", slow.url)}
    for rate in (0, 1):
        policy = gateway_processes.policy_of(kernels, audit={"rate": rate, "probeRate": 1, "oncePerSession": False})
        gateway = pool.gateway(tmp_path / f"gateway{rate}", kernels, policy=policy)
        stream = gateway.stream(model="kcc-lab", messages=[{"role": "user", "content": "ask-1 words-8"}])
        times = [time.monotonic() for _ in stream]
        gaps = [after - before for before, after in zip(times, times[1:])][1:-2]  # the first two may come together
        assert all(gap > 0.03 for gap in gaps), (rate, gaps)


def test_the_kernels_key_is_sent_and_the_clients_is_not(pool, tmp_path):
    import http.server
    import threading

    seen = []

    class Listener(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_POST(self):
            seen.append({name.lower(): value for name, value in self.headers.items()})
            self.rfile.read(int(self.headers["Content-Length"]))
            body = b'{"choices":[],"system_fingerprint":"x"}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Listener)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        (tmp_path / "gateway").mkdir()
        (tmp_path / "gateway/k.txt").write_text("secret-of-the-kernel\n")
        url = f"http://127.0.0.1:{server.server_port}"
        kernels = {"a": ("infer", url, {"keyFile": "k.txt", "set": {"temperature": 0}}), "audit": ("audit", url)}
        gateway = pool.gateway(tmp_path / "gateway", kernels, policy=gateway_processes.policy_of(kernels, audit={"rate": 0}))
        headers = {"Authorization": "Bearer clients-own", "Cookie": "c=1", "X-Forwarded-For": "1.2.3.4", "Connection": "x-drop",
                   "x-drop": "1"}  # fmt: skip
        gateway.ask("POST", "/v1/completions", {"model": "kcc-lab", "prompt": "a", "temperature": 0.7}, headers)
        (head,) = [one for one in seen if "authorization" in one]
        assert head["authorization"] == "Bearer secret-of-the-kernel"
        assert "clients-own" not in str(head) and "x-drop" not in head and "cookie" not in head
    finally:
        server.shutdown()
        server.server_close()
