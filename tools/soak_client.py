"""The clients of the soak: HTTP by hand over asyncio, every answer held against what only its own request can have got."""

import asyncio
import collections
import dataclasses
import json
import random
import socket
import struct
import time

# What becomes of a request, as its client sees it. Every request is exactly one of these.
ENDS = ("right",  # status 200, whole, and the answer to this request
        "garbage",  # status 200 and no JSON: a kernel said so
        "told",  # a stream that broke off after content, and said so in an event
        "broken",  # the connection broke off inside a whole answer
        "error",  # an error of OpenAI's shape
        "left",  # the client went away, as it meant to
        "wrong")  # anything else: the soak has failed


@dataclasses.dataclass
class Result:
    end: str
    kernel: str = ""  # x-kcc-kernel; empty: the gateway itself answered
    words: str = ""  # why, where it is wrong
    began: float = 0.0
    stream: bool = False
    status: int = 0


class Connection:
    """One keep-alive connection of a client."""

    def __init__(self, host):
        self.host, self.reader, self.writer = host, None, None

    async def send(self, body, path):
        if self.writer is None or self.writer.is_closing():
            name, port = self.host.split(":")
            self.reader, self.writer = await asyncio.open_connection(name, int(port), limit=1 << 22)
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self.host}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        self.writer.write(head.encode() + data)
        await self.writer.drain()

    async def head(self):
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
        return int(lines[0].split()[1]), headers

    async def body(self, headers):
        """The parts of the body as they come."""
        if "content-length" in headers:
            yield await self.reader.readexactly(int(headers["content-length"]))
            return
        while True:
            size = int((await self.reader.readuntil(b"\r\n")).split(b";")[0], 16)
            part = await self.reader.readexactly(size + 2)
            if size == 0:
                return
            yield part[:-2]

    def drop(self):
        if self.writer is not None:
            sock = self.writer.get_extra_info("socket")
            if sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()
        self.reader = self.writer = None


@dataclasses.dataclass
class Ask:
    path: str
    body: dict
    text: str  # that the answer must be
    leave_after: int = -1  # events; below 0: it stays


def text_of(choice):
    if "text" in choice:
        return choice["text"]
    return choice.get("delta", choice.get("message", {})).get("content") or ""


def is_error(value):
    return isinstance(value, dict) and set(value) == {"error"} and isinstance(value["error"], dict) and value["error"].get("message")


async def read_stream(connection, headers, ask):
    """(end, words) of a stream."""
    buffer, text, told, done, garbled, events = b"", "", False, False, False, 0
    try:
        async for part in connection.body(headers):
            buffer += part
            while b"\n\n" in buffer:
                event, _, buffer = buffer.partition(b"\n\n")
                events += 1
                if done or told:
                    return "wrong", "an event after the end"
                if ask.leave_after >= 0 and events > ask.leave_after:
                    return "left", ""
                data = event.decode().removeprefix("data: ")
                if data == "[DONE]":
                    done = True
                    continue
                try:
                    value = json.loads(data)
                except ValueError:
                    garbled = True
                    continue
                if is_error(value):
                    told = True
                elif value["choices"]:
                    text += text_of(value["choices"][0])
                    if not ask.text.startswith(text):
                        return "wrong", f"another's stream: {text[-80:]!r} for {ask.text[:40]!r}"
    except (asyncio.IncompleteReadError, ConnectionError):
        return "wrong", f"a stream that broke off without a word after {text!r}"
    if garbled:
        return "garbage", ""
    if told:
        return ("told", "") if text else ("wrong", "an error in a stream before its content")
    if not done:
        return "wrong", "a stream without [DONE]"
    return ("right", "") if text == ask.text else ("wrong", f"half a stream: {text!r}")


async def read_whole(connection, headers, ask):
    try:
        body = b"".join([part async for part in connection.body(headers)])
    except (asyncio.IncompleteReadError, ConnectionError):
        return "broken", ""
    try:
        value = json.loads(body)
    except ValueError:
        return "garbage", ""
    text = text_of(value["choices"][0])
    return ("right", "") if text == ask.text else ("wrong", f"another's answer: {text[:80]!r} for {ask.text[:40]!r}")


async def perform(connection, ask):
    """One request, read to its end."""
    began = time.time()
    stream = bool(ask.body.get("stream"))
    try:
        await connection.send(ask.body, ask.path)
        status, headers = await connection.head()
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        connection.drop()
        return Result("wrong", words=f"no answer: {error!r}", began=began, stream=stream)
    kernel = headers.get("x-kcc-kernel", "")
    if status != 200:
        body = b"".join([part async for part in connection.body(headers)])
        shaped = is_error(json.loads(body))
        return Result("error" if shaped else "wrong", kernel, f"status {status}: {body[:200]!r}", began, stream, status)
    if not kernel:
        connection.drop()
        return Result("wrong", "", "an answer of no kernel", began, stream, status)
    end, words = await (read_stream if stream else read_whole)(connection, headers, ask)
    if end not in ("right", "garbage", "told"):
        connection.drop()
    return Result(end, kernel, words, began, stream, status)


class Clients:
    """So many clients, each with one connection, until `ended`; what became of their requests."""

    def __init__(self, host, make, count, think_s, seed):
        self.host, self.make, self.think_s = host, make, think_s
        self.ends = collections.Counter()  # by end
        self.by_kernel = collections.Counter()  # by (kernel, end)
        self.notable = []  # results that are not simply right
        self.delays = []
        self.ended = asyncio.Event()
        self.sent = 0
        self.tasks = [asyncio.create_task(self.client(random.Random(f"{seed}-{i}"), i)) for i in range(count)]

    async def client(self, drawn, number):
        connection, count = Connection(self.host), 0
        await asyncio.sleep(drawn.random())
        while not self.ended.is_set():
            count += 1
            ask = self.make(drawn, f"{number}x{count}")
            self.sent += 1
            began = time.monotonic()
            result = await asyncio.wait_for(perform(connection, ask), 60)
            self.delays.append(time.monotonic() - began)
            self.ends[result.end] += 1
            self.by_kernel[result.kernel, result.end] += 1
            if result.end not in ("right", "left"):
                self.notable.append(result)
            await asyncio.sleep(drawn.expovariate(1 / self.think_s))
        connection.drop()

    async def stop(self):
        self.ended.set()
        for result in await asyncio.gather(*self.tasks, return_exceptions=True):
            if isinstance(result, BaseException):
                self.ends["wrong"] += 1
                self.notable.append(Result("wrong", words=f"a client ended with {result!r}", began=time.time()))


def scripted_ask(drawn, name):
    """Of all four kinds; some sampled, some of which the client asks for log-probs itself, some that the client leaves."""
    words = drawn.randint(1, 24)
    prompt = f"ask-{name} words-{words}"
    text = "".join(f"ask-{name}.{i} " for i in range(words))
    stream = drawn.random() < 0.6
    body = {"model": "kcc-lab", "stream": stream, "user": f"u{drawn.randrange(200)}"}
    if drawn.random() < 0.3:
        body["tags"] = ["math"]
    if drawn.random() < 0.5:
        body |= {"messages": [{"role": "user", "content": prompt}]}
        if drawn.random() < 0.2:
            body |= {"logprobs": True, "top_logprobs": 2}
        path = "/v1/chat/completions"
    else:
        body |= {"prompt": prompt}
        if drawn.random() < 0.2:
            body |= {"logprobs": 2}
        path = "/v1/completions"
    leave = drawn.randint(0, words) if stream and drawn.random() < 0.05 else -1
    return Ask(path, body, text, leave)


def lab_ask(answers):
    """Of the lab's model: the answer to a multiplication names its numbers."""

    def make(drawn, _):
        prompt = drawn.choice(sorted(answers))
        body = {"model": "kcc-lab", "prompt": prompt, "temperature": 0, "max_tokens": 8, "stream": drawn.random() < 0.5,
                "tags": ["math"]}  # fmt: skip
        return Ask("/v1/completions", body, answers[prompt])

    return make
