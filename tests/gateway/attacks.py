"""What hostile clients send, and what becomes of it. docs/gateway.md has a table of the same titles and outcomes."""

import dataclasses
import json

HOST = b"Host: x\r\n"
BODY = json.dumps({"model": "kcc-lab", "messages": [{"role": "user", "content": "ask-1 words-1"}]}).encode()
POST = b"POST /v1/chat/completions HTTP/1.1\r\nContent-Type: application/json\r\n"
# What a smuggler wants to be taken for a request of its own.
INNER = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"


def length(body=BODY):
    return b"Content-Length: %d\r\n" % len(body)


def post(*lines, body=BODY):
    return POST + HOST + b"".join(lines) + b"\r\n" + body


def chunked(*parts):
    return b"".join(parts)


@dataclasses.dataclass(frozen=True)
class Attack:
    title: str  # as the page has it
    bytes: bytes
    statuses: tuple  # that may be answered; empty: the connection is closed without a word
    outcome: str  # as the page has it
    closes: bool = True  # the connection takes no second request
    reaches: bool = False  # a kernel gets it


CHUNK = b"%x" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
SMUGGLED = b"0\r\n\r\n" + INNER
MODELS = b"GET /v1/models HTTP/1.1\r\n"

# Requests that two readers could split differently are refused, and nothing more is read of them.
SMUGGLING = [
    Attack("Content-Length and Transfer-Encoding", post(b"Content-Length: %d\r\n" % len(SMUGGLED), CHUNKED, body=SMUGGLED), (400,),
           "400, closed"),
    Attack("Transfer-Encoding and Content-Length", post(CHUNKED, b"Content-Length: 4\r\n", body=SMUGGLED), (400,), "400, closed"),
    Attack("two Content-Lengths that differ", post(length(), b"Content-Length: 3\r\n"), (400,), "400, closed"),
    Attack("a list of Content-Lengths that differ", post(b"Content-Length: 3, %d\r\n" % len(BODY)), (400,), "400, closed"),
    Attack("a signed Content-Length", post(b"Content-Length: +%d\r\n" % len(BODY)), (400,), "400, closed"),
    Attack("a Content-Length that overflows", post(b"Content-Length: 18446744073709551617\r\n"), (400, 413), "400, closed"),
    Attack("another Transfer-Encoding than chunked", post(b"Transfer-Encoding: identity\r\n", length()), (400, 501), "400, closed"),
    Attack("a Transfer-Encoding that is misspelt", post(b"Transfer-Encoding: xchunked\r\n", body=SMUGGLED), (400, 501), "400, closed"),
    Attack("chunked twice", post(b"Transfer-Encoding: chunked, chunked\r\n", body=SMUGGLED), (400, 501), "400, closed"),
    Attack("a Transfer-Encoding after a vertical tab", post(b"Transfer-Encoding: \x0bchunked\r\n", body=SMUGGLED), (400, 501), "400, closed"),
    Attack("blanks before a colon", post(b"Content-Length : 5\r\n", CHUNKED, body=SMUGGLED), (400,), "400, closed"),
    Attack("a bare LF in the head", POST.replace(b"\r\n", b"\n") + b"Host: x\n" + length().replace(b"\r\n", b"\n") + b"\n" + BODY,
           (400,), "400, closed"),
    Attack("a bare LF after a chunk's size", post(CHUNKED, body=CHUNK + b"\n" + BODY + b"\r\n0\r\n\r\n"), (400,), "400, closed"),
    Attack("a folded header", post(length(), b"X-A: 1\r\n 2\r\n"), (400,), "400, closed"),
    Attack("a NUL in a header", post(length(), b"X-A: 1\x002\r\n"), (400,), "400, closed"),
    Attack("a control character in a header's name", post(length(), b"X\x01A: 1\r\n"), (400,), "400, closed"),
    Attack("a chunk's size that is no number", post(CHUNKED, body=b"zz\r\n" + BODY + b"\r\n0\r\n\r\n"), (400,), "400, closed"),
    Attack("a chunk's size that overflows", post(CHUNKED, body=b"ffffffffffffffff1\r\n" + BODY), (400, 413), "400, closed"),
    Attack("a chunk longer than its size", post(CHUNKED, body=b"3\r\n" + BODY + b"\r\n0\r\n\r\n"), (400,), "400, closed"),
    Attack("two Hosts", post(length(), b"Host: y\r\n"), (400,), "400, closed"),
    Attack("no Host", POST + length() + b"\r\n" + BODY, (400,), "400, closed"),
]  # fmt: skip

# What is odd and says one thing alone.
ODD = [
    Attack("chunk extensions", post(CHUNKED, body=CHUNK + b';a="b"\r\n' + BODY + b"\r\n0\r\n\r\n"), (200,),
           "read over; a kernel gets a Content-Length", closes=False, reaches=True),
    Attack("trailers", post(CHUNKED, body=CHUNK + b"\r\n" + BODY + b"\r\n0\r\nx-kcc-kernel: b\r\n\r\n"), (200,),
           "read over, never passed on", closes=False, reaches=True),
    Attack("the same Content-Length twice", post(length(), length()), (400,), "400, closed"),
    Attack("a request behind a request", post(length(), body=BODY) + post(length(), body=BODY), (200,),
           "answered in turn", closes=False, reaches=True),
]  # fmt: skip

# What is not HTTP/1.1 as a client of a model would speak it.
FOREIGN = [
    Attack("HTTP/0.9", b"GET /v1/models\r\n\r\n", (400, 505), "400, closed"),
    Attack("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (505,), "505, closed"),
    Attack("HTTP/3.7", b"GET /v1/models HTTP/3.7\r\nHost: x\r\n\r\n", (505,), "505, closed"),
    Attack("TLS to a port without it", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), (400,), "400, closed"),
    Attack("nothing but line ends", b"\r\n" * 5000, (400, 431), "400, closed"),
    Attack("CONNECT", b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n", (501,), "501, closed; nothing is opened"),
    Attack("TRACE", b"TRACE /v1/models HTTP/1.1\r\nHost: x\r\nCookie: secret\r\n\r\n", (405,), "405, or 404; nothing is repeated",
           closes=False),
    Attack("a whole URL as target", b"GET http://evil.example/v1/files HTTP/1.1\r\nHost: x\r\n\r\n", (404,),
           "read as its path; nothing is opened to its host", closes=False),
    Attack("OPTIONS of all (`*`)", b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", (404,), "404", closes=False),
    Attack("HTTP/1.2", post(length(), body=BODY).replace(b"HTTP/1.1", b"HTTP/1.2", 1), (200,), "read as HTTP/1.1", closes=False, reaches=True),
    Attack("a path upwards", b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", (400, 404), "404", closes=False),
    Attack("the admin's routes on the clients' port", b"GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n", (404,), "404", closes=False),
]  # fmt: skip

OVERSIZED = [
    Attack("a head beyond the limit", MODELS + HOST + b"X-A: " + b"a" * 40_000 + b"\r\n\r\n", (431,), "431, closed"),
    Attack("many headers beyond the limit", MODELS + HOST + b"X-A: a\r\n" * 5000 + b"\r\n", (431,), "431, closed"),
    Attack("a target beyond the limit", b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", (414, 431), "431, closed"),
    Attack("a body that says it is beyond the limit", post(b"Content-Length: 99999999\r\n", body=b""), (413,), "413, closed, before it is sent"),
    Attack("chunks beyond the limit", post(CHUNKED, body=b"".join(b"10000\r\n" + b" " * 0x10000 + b"\r\n" for _ in range(4))), (413,),
           "413, closed"),
]  # fmt: skip

RAW = SMUGGLING + ODD + FOREIGN + OVERSIZED

# Attacks that are more than bytes to send; test_attacks.py has a test of each.
OTHER = {
    "a head that comes byte by byte": "408 or closed after times.request",
    "a body that comes byte by byte": "408 or closed after times.request",
    "a connection that sends nothing": "closed after times.idle",
    "a client that does not read": "closed after times.write; the kernel's connection too",
    "large requests behind a request": "answered in turn; 16 KiB of them (limits.headers) are held while the first is answered",
    "bytes behind a request that is the last of its connection": "thrown away until the client has the whole answer",
    "a client that ends its side before it has its answer": "it has left: the kernel's connection is closed, nothing more is answered",
    "more connections than limits.connections": "503 or closed; those that are open go on",
    "a gzip bomb from a kernel": "never unpacked; another kernel answers",
    "a kernel whose head never ends": "another kernel answers",
    "a kernel that answers with two lengths": "another kernel answers",
    "a kernel that sends headers of the gateway": "the gateway's own are sent, once",
    "line ends in a model's name": "404; no header is made of it",
    "line ends in a request's id": "400, or an id of the gateway's own",
    "the admin port without the token": "401",
    "the admin port with a wrong token": "401",
    "the admin port under another Host, or a URL of one": "403",
    "the admin port from another Origin": "403",
    "a form posted to the admin port": "refused; nothing changes",
    "two members of one name in a body": "400, or the kernel gets what was decided by",
}
