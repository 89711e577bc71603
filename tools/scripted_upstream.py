#!/usr/bin/env python3
"""A kernel by formula in vLLM's formats, that misbehaves on demand: what stands behind a gateway in the soak and the tests.

    tools/scripted_upstream.py COUNTS [--name NAME] [--port N] [--pace MS]

The answer to a prompt with "ask-17 words-5" is "ask-17.0 ask-17.1 … ask-17.4 ", so that every answer shows whose it is. Tokens
are bytes, and the log-prob of v after u is -r/10 - log Z with r = (v - 7 u) mod 512. What it did is counted in a file that
outlives a kill (COUNTS, in the order of gateway_processes.COUNTS).

What a client asked has an x-request-id of the gateway's; what has none the scorer asks by itself, and is answered well.
Lines of JSON on standard input say how generations are answered from then on ({} is well); each is answered by {"done": true}:
    mode     ok, status, refuse (closed at once), hang (never answered), half-head, cut, stall, garbage (not HTTP),
             garbage-body (200, and not JSON; a stream: events that are not), raw (`bytes`, then closed)
    rate     share of the generations that it is done to (1); seed: which
    code     of status; after: words before cut and stall (2); seconds: that a hang or stall lasts (600); bytes: of raw, latin-1
    wait     seconds before anything of an answer
    shift    added to the log-prob that the answer claims for its tokens: another kernel than the audit's
    headers  further ones of answers
    scoring  the mode is done to scoring too
    die      the process kills itself at so many more words
It ends when standard input does, or by SIGTERM.
"""

import argparse
import asyncio
import json
import math
import mmap
import os
import random
import re
import signal
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gateway_processes import COUNTS  # noqa: E402

VOCAB = 512
TOP = 20
LOG_Z = -math.log(1 - math.exp(-0.1))


def logprob(before, token):
    return -0.1 * ((token - 7 * before) % VOCAB) - LOG_Z


def best(before, count):
    return [(7 * before + rank) % VOCAB for rank in range(count)]


class Counts:
    def __init__(self, file):
        with open(file, "ab") as made:
            if made.tell() == 0:
                made.write(bytes(8 * len(COUNTS)))
        self.file = open(file, "r+b")  # noqa: SIM115 (as long as the process)
        self.memory = mmap.mmap(self.file.fileno(), 8 * len(COUNTS))

    def add(self, name):
        place = 8 * COUNTS.index(name)
        (value,) = struct.unpack_from("<Q", self.memory, place)
        struct.pack_into("<Q", self.memory, place, value + 1)


class Answer:
    """What is said to one generation, whole or word by word."""

    def __init__(self, body, chat, name, shift):
        self.body, self.chat, self.shift, self.fingerprint = body, chat, shift, f"scripted/{name}"
        prompt = body.get("prompt", "") if not chat else "".join(str(m.get("content")) for m in body.get("messages", []))
        text = prompt if isinstance(prompt, str) else bytes(t for t in prompt if t < 256).decode("latin-1")
        self.prompt = list(text.encode()) or [1]
        self.id = (re.search(r"ask-\w+", text) or re.search("$", text)).group()
        count = int((re.search(r"words-(\d+)", text) or [0, 5])[1])
        self.words = [f"{self.id}.{i} " for i in range(count)]
        # Chat asks by a switch and a number, completions by a number.
        asked = body.get("logprobs")
        self.top = None if asked in (None, False) else int(body.get("top_logprobs") or 0) if chat else int(asked)
        self.ids = bool(body.get("return_token_ids"))
        self.as_ids = bool(body.get("return_tokens_as_token_ids"))

    def name_of(self, token):
        return f"token_id:{token}" if self.as_ids else chr(token) if token < 128 else "\ufffd"

    def logprobs(self, before, tokens, offset):
        if self.top is None or not tokens:
            return None
        rows = []
        for token in tokens:
            rows.append((token, logprob(before, token) + self.shift, [(v, logprob(before, v)) for v in best(before, self.top)]))
            before = token
        if self.chat:
            def entry(token, value):
                return {"token": self.name_of(token), "logprob": value, "bytes": [token % 256]}

            return {"content": [entry(t, x) | {"top_logprobs": [entry(*pair) for pair in top]} for t, x, top in rows]}
        return {"text_offset": [offset + i for i in range(len(rows))], "token_logprobs": [x for _, x, _ in rows],
                "tokens": [self.name_of(t) for t, _, _ in rows],
                "top_logprobs": [{self.name_of(t): x} | {self.name_of(v): y for v, y in top if v != t} for t, x, top in rows]}  # fmt: skip

    def choice(self, text, before, offset, finish, whole, first=False):
        tokens = list(text.encode())
        choice = {"index": 0}
        if not self.chat:
            choice["text"] = text
        elif whole:
            choice["message"] = {"role": "assistant", "content": text, "refusal": None}
        else:
            choice["delta"] = ({"role": "assistant"} if first else {}) | {"content": text}
        choice |= {"logprobs": self.logprobs(before, tokens, offset), "finish_reason": finish, "stop_reason": None,
                   "token_ids": tokens if self.ids else None}  # fmt: skip
        return choice | (self.prompt_part(whole or first) if not self.chat else {})

    def prompt_part(self, told=True):
        return {"prompt_logprobs": None, "prompt_token_ids": self.prompt if self.ids and told else None}

    def document(self, choices, whole, **more):
        kind = ("chat.completion" if whole else "chat.completion.chunk") if self.chat else "text_completion"
        return {"id": f"x-{self.id}", "object": kind, "created": 1, "model": "kcc-lab", "choices": choices} | more | {
            "system_fingerprint": self.fingerprint}  # fmt: skip

    def whole(self):
        text = "".join(self.words)
        usage = {"prompt_tokens": len(self.prompt), "total_tokens": len(self.prompt) + len(text), "completion_tokens": len(text),
                 "prompt_tokens_details": None}  # fmt: skip
        part = self.prompt_part() if self.chat else {}
        return compact(self.document([self.choice(text, self.prompt[-1], 0, "stop", True)], True, **part, usage=usage))

    def events(self):
        before, offset = self.prompt[-1], 0
        if self.chat or self.ids:  # with the role, or the prompt's ids
            yield self.event(self.choice("", before, 0, None, False, True), self.prompt_part() if self.chat else {})
        for word in self.words:
            yield self.event(self.choice(word, before, offset, None, False), {})
            before, offset = word.encode()[-1], offset + len(word)
        yield self.event(self.choice("", before, offset, "stop", False), {})

    def event(self, choice, part):
        return "data: " + compact(self.document([choice], False, **part, usage=None)) + "\n\n"


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def scored(body, name):
    """Of a prompt's tokens the log-probs and the best, as vLLM gives them with prompt_logprobs."""
    prompt = body["prompt"]
    if "2147483647" in (body.get("logit_bias") or {}):
        return 400, {"error": {"message": f"out-of-vocab token ids. Vocabulary size: {VOCAB}", "code": 400}}
    if "prompt_logprobs" not in body:
        return None
    entries = [None]
    for before, token in zip(prompt, prompt[1:]):
        tokens = [token, *(v for v in best(before, body["prompt_logprobs"]) if v != token)]
        entries.append({str(v): {"logprob": logprob(before, v), "rank": (v - 7 * before) % VOCAB + 1, "decoded_token": None}
                        for v in tokens})  # fmt: skip
    choice = {"index": 0, "text": "", "logprobs": None, "finish_reason": "length", "token_ids": [0], "prompt_token_ids": prompt,
              "prompt_logprobs": entries}  # fmt: skip
    return 200, {"id": "s", "choices": [choice], "system_fingerprint": f"scripted/{name}",
                 "usage": {"prompt_tokens": len(prompt), "completion_tokens": 1}}  # fmt: skip


def generated(body, name):
    """The likeliest tokens after a prompt of ids, as kcc asks for them to learn what the log-probs of answers mean."""
    before, rows = body["prompt"][-1], []
    for _ in range(body.get("max_tokens", 16)):
        (token,) = best(before, 1)
        rows.append((token, {f"token_id:{v}": logprob(before, v) for v in best(before, body.get("logprobs") or 1)}))
        before = token
    logprobs = {"text_offset": [0] * len(rows), "tokens": [f"token_id:{token}" for token, _ in rows],
                "token_logprobs": [tops[f"token_id:{token}"] for token, tops in rows], "top_logprobs": [tops for _, tops in rows]}  # fmt: skip
    choice = {"index": 0, "text": "", "logprobs": logprobs, "finish_reason": "length", "token_ids": [token for token, _ in rows],
              "prompt_token_ids": body["prompt"], "prompt_logprobs": None}  # fmt: skip
    return {"id": "g", "choices": [choice], "system_fingerprint": f"scripted/{name}",
            "usage": {"prompt_tokens": len(body["prompt"]), "completion_tokens": len(rows)}}  # fmt: skip


class Broken(Exception):
    """The connection is to be closed as it is."""


class Upstream:
    def __init__(self, options):
        self.options, self.how, self.drawn = options, {}, random.Random(0)
        self.counts = Counts(options.counts)

    def behave(self, how):
        self.how, self.drawn = how, random.Random(how.get("seed", 0))

    async def serve(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b""
                text = head.decode("latin-1")
                await self.answer(text.split(" ")[:2], "\r\nx-request-id:" in text.lower(), body, writer)
        except (asyncio.IncompleteReadError, ConnectionError, Broken, asyncio.LimitOverrunError):
            pass
        finally:
            writer.transport.abort() if not writer.is_closing() else None

    async def answer(self, line, of_client, body, writer):
        method, path = line
        if method == "GET":
            self.counts.add("gets")
            page = {"/version": {"version": "0.11.0"}, "/v1/models": {"object": "list", "data": [
                {"id": "kcc-lab", "object": "model", "owned_by": "vllm", "max_model_len": 4096}]}}.get(path)  # fmt: skip
            return await self.whole(writer, 200 if page else 404, compact(page or {}))
        asked = json.loads(body)
        if path == "/tokenize":
            self.counts.add("asked")
            tokens = Answer(asked, "messages" in asked, self.options.name, 0).prompt
            return await self.whole(writer, 200, compact({"count": len(tokens), "max_model_len": 4096, "tokens": tokens}))
        score = scored(asked, self.options.name) if path == "/v1/completions" and isinstance(asked.get("prompt"), list) else None
        if score and not self.how.get("scoring"):
            self.counts.add("scored")
            return await self.whole(writer, score[0], compact(score[1]))
        if "cache_salt" in asked and isinstance(asked.get("prompt"), list):
            self.counts.add("asked")
            return await self.whole(writer, 200, compact(generated(asked, self.options.name)))
        answer = Answer(asked, path == "/v1/chat/completions", self.options.name, self.how.get("shift", 0))
        if not of_client:  # the gateway's scorer asks by itself: a probe, or whether an answer repeats itself
            self.counts.add("asked")
            return await self.whole(writer, 200, answer.whole())
        self.counts.add("came")
        mode = self.how.get("mode", "ok") if self.drawn.random() < self.how.get("rate", 1) else "ok"
        await self.generation(answer, mode, bool(asked.get("stream")), writer)

    async def generation(self, answer, mode, stream, writer):
        how = self.how
        await self.pause(writer, how.get("wait", 0))
        if mode == "status":
            error = {"error": {"message": "as asked for", "type": "server_error"}}
            return await self.whole(writer, how["code"], compact(error), "refused")
        if mode == "hang":
            self.counts.add("stalled")
            await self.pause(writer, how.get("seconds", 600))
            raise Broken
        if mode in ("refuse", "half-head", "garbage", "raw"):
            self.counts.add("garbage" if mode in ("garbage", "raw") else "cut")
            text = {"half-head": "HTTP/1.1 200 OK\r\nContent-Ty", "garbage": "\x00\x01 this is not HTTP \xff\r\n\r\n", "refuse": "",
                    "raw": how.get("bytes", "")}[mode]  # fmt: skip
            await self.say(writer, text.encode("latin-1"))
            writer.close()
            raise Broken
        if mode == "garbage-body" and not stream:
            return await self.whole(writer, 200, "{]} this is not JSON", "garbage")
        if not stream:
            return await self.whole_words(answer, mode, writer)
        return await self.stream(answer, mode, writer)

    async def whole_words(self, answer, mode, writer):
        for _ in answer.words:
            await self.tick()
        text = answer.whole()
        if mode in ("cut", "stall"):
            head = self.head(200, "application/json", f"Content-Length: {len(text)}")
            await self.say(writer, (head + text[: len(text) // 2]).encode())
            await self.stop(mode, writer)
        await self.whole(writer, 200, text, "whole")

    async def stream(self, answer, mode, writer):
        await self.say(writer, self.head(200, "text/event-stream; charset=utf-8", "Transfer-Encoding: chunked").encode())
        for number, event in enumerate(answer.events()):
            if mode in ("cut", "stall") and number >= self.how.get("after", 2):
                await self.stop(mode, writer)
            if mode == "garbage-body":
                event = "data: {]} not JSON\n\n"
            await self.tick()
            await self.chunk(writer, event)
        await self.chunk(writer, "data: [DONE]\n\n")
        await self.say(writer, b"0\r\n\r\n", "garbage" if mode == "garbage-body" else "whole")

    async def stop(self, mode, writer):
        self.counts.add("cut" if mode == "cut" else "stalled")
        if mode == "stall":
            await self.pause(writer, self.how.get("seconds", 600))
        writer.close()
        raise Broken

    async def tick(self):
        if "die" in self.how:
            self.how["die"] -= 1
            if self.how["die"] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
        if self.options.pace:
            await asyncio.sleep(self.options.pace / 1000)

    async def pause(self, writer, seconds):
        for _ in range(int(seconds * 20)):
            await asyncio.sleep(0.05)
            if writer.is_closing():
                raise Broken

    def head(self, status, kind, length):
        more = "".join(f"{name}: {value}\r\n" for name, value in self.how.get("headers", {}).items())
        return f"HTTP/1.1 {status} Said\r\nContent-Type: {kind}\r\n{more}{length}\r\n\r\n"

    async def whole(self, writer, status, text, last=None):
        head = self.head(status, "application/json", f"Content-Length: {len(text.encode())}")
        await self.say(writer, (head + text).encode(), last)

    async def chunk(self, writer, text):
        data = text.encode()
        await self.say(writer, b"%x\r\n%s\r\n" % (len(data), data))

    # `last`: what an answer that ends with these bytes is counted as; before anybody can have read it.
    async def say(self, writer, data, last=None):
        if writer.is_closing():
            self.counts.add("left")
            raise Broken
        if last:
            self.counts.add(last)
        try:
            writer.write(data)
            await writer.drain()
        except ConnectionError:
            if not last:
                self.counts.add("left")
            raise Broken from None


async def obey(upstream):
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        upstream.behave(json.loads(line))
        print('{"done":true}', flush=True)


async def run(options):
    upstream = Upstream(options)
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", options.port, limit=1 << 24, backlog=1024)
    print(json.dumps({"url": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"}), flush=True)
    waits = [asyncio.create_task(ended.wait()), asyncio.create_task(obey(upstream))]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    os._exit(0)  # connections may be stalled on purpose


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("counts")
    parser.add_argument("--name", default="scripted")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--pace", type=float, default=0, help="milliseconds from word to word")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
