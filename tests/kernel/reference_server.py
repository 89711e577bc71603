#!/usr/bin/env python3
"""A small model behind the routes of vLLM, SGLang, llama.cpp and TensorRT-LLM, for tests.

The model is a formula (`logits`), so every number can be checked. The dialects follow the formats
in docs/servers.md, and every unknown field of a request is refused. The first parts of the path
choose the dialect and the faults, so that one server serves many tests:

    http://127.0.0.1:PORT/vllm/none/KEY/v1/completions
    http://127.0.0.1:PORT/sglang/500-once,scaled/KEY/generate

KEY keeps the counters of one test apart; GET …/stats prints them. The port is free (0); the address
is the first line printed. The server ends when its stdin is closed. With two arguments, a
certificate and its key, it speaks TLS.
"""

import http.server
import json
import math
import random
import re
import ssl
import sys
import threading

VOCAB = 64
EOS = 2
FRAGMENTS = (61, 62, 63)  # of characters; llama.cpp can neither force them nor give their numbers
VERSION = "1.2.3"
LOWEST = -3.4028235e38
ENDED = threading.Event()


def logits(prefix):
    last = prefix[-1]
    second = prefix[-2] if len(prefix) > 1 else 0
    return [
        2.5 * math.sin(0.7 * v + 1.3 * last) + 1.5 * math.cos(0.31 * v * (len(prefix) % 7 + 1) + 0.9 * second)
        for v in range(VOCAB)
    ]


def log_softmax(row):
    finite = [x for x in row if x != -math.inf]
    top = max(finite)
    norm = top + math.log(sum(math.exp(x - top) for x in finite))
    return [x - norm for x in row]


def shaped(row, temperature, top_k):
    """The logits after temperature and top-k, as a sampler leaves them."""
    row = [x / temperature for x in row] if temperature > 0 else row
    if top_k > 0:
        least = sorted(row, reverse=True)[top_k - 1]
        row = [x if x >= least else -math.inf for x in row]
    return row


class Faults(set):
    def row(self, prefix):
        """The logits; `drift` is another kernel for the same weights, and no good one. `peaked`: as sure of its
        tokens as a language model is, so that a list of 20 leaves out little."""
        row = [3 * x for x in logits(prefix)] if "peaked" in self else logits(prefix)
        return [x + 0.4 * math.sin(2.9 * v + len(prefix)) for v, x in enumerate(row)] if "drift" in self else row

    def numbers(self, prefix, temperature, top_k):
        """What this server calls the log-probs of the token after `prefix`."""
        row = self.row(prefix)
        if "logits" in self:
            return row
        if "processed" in self:
            return log_softmax(shaped(row, temperature, top_k))
        if "scaled" in self:
            return log_softmax(shaped(row, temperature, 0))
        if "flat" in self:
            return log_softmax([0.0] * VOCAB)
        return log_softmax(row)

    def scored(self, tokens, first, temperature, top_k):
        """(token, numbers) for tokens[first:]."""
        look = 1 if "shift" in self else 0  # the numbers of the next token
        return [
            (tokens[t], self.numbers(tokens[: t + look], temperature, top_k)) for t in range(first, len(tokens))
        ]


def best(numbers, k):
    return sorted(range(VOCAB), key=lambda v: (-numbers[v], v))[:k]


def known(body, fields):
    unknown = sorted(set(body) - set(fields))
    if unknown:
        raise Refused(400, f"extra inputs are not permitted: {unknown}")


class Refused(Exception):
    def __init__(self, status, words):
        super().__init__(words)
        self.status = status


def generated(prompt, count, temperature, top_k, seed, stop):
    rng = random.Random(seed)
    tokens = list(prompt)
    for _ in range(count):
        row = shaped(logits(tokens), temperature, top_k)
        if temperature == 0:
            token = best(row, 1)[0]
        else:
            weights = [math.exp(x) for x in log_softmax(row)]
            token = rng.choices(range(VOCAB), weights)[0]
        tokens.append(token)
        if token in stop:
            break
    return tokens


# --- dialects: body, faults -> response -------------------------------------------------------


def vllm_completions(body, faults):
    known(body, ["model", "prompt", "max_tokens", "temperature", "top_k", "top_p", "seed", "stop_token_ids",
                 "logprobs", "prompt_logprobs", "return_token_ids", "return_tokens_as_token_ids", "cache_salt",
                 "priority", "logit_bias"])
    beyond = [int(token) for token in body.get("logit_bias", {}) if int(token) >= VOCAB]
    if beyond:
        size = "" if "silent-vocabulary" in faults else f" Vocabulary size: {VOCAB}"
        raise Refused(400, f"token_id(s) {beyond} in logit_bias contain out-of-vocab token ids.{size}")
    prompt = body["prompt"]
    temperature, top_k = body.get("temperature", 1.0), body.get("top_k", 0)
    choice = {"index": 0, "text": "", "finish_reason": "length", "logprobs": None, "prompt_logprobs": None}
    if "prompt_logprobs" in body:
        k = min(body["prompt_logprobs"], 2 if "few-tops" in faults else VOCAB)
        entries = [None]
        for token, numbers in faults.scored(prompt, 1, temperature, top_k):
            order = best(numbers, VOCAB)
            entry = {}
            for v in [token] + order[:k]:
                key = f"word{v}" if "text-ids" in faults else str(v)
                value = numbers[v] if numbers[v] != -math.inf else -9999.0
                entry[key] = {"logprob": value, "rank": order.index(v) + 1, "decoded_token": None}
            entries.append(entry)
        if "sentinel" in faults:
            entries[-1][str(prompt[-1])]["logprob"] = -9999.0
        if "count" in faults:
            entries.pop()
        if "shift-ids" in faults:
            entries = [None] + entries[2:] + entries[-1:]
        choice["prompt_logprobs"] = entries
        output = prompt + [0]
    else:
        output = generated(prompt, body["max_tokens"], temperature, top_k, body["seed"], body.get("stop_token_ids", []))
    rows = [] if "prompt_logprobs" in body else faults.scored(output, len(prompt), temperature, top_k)
    if "logprobs" in body:
        names = [f"token_id:{token}" for token, _ in rows]
        choice["logprobs"] = {
            "tokens": names, "token_logprobs": [max(numbers[token], -9999.0) for token, numbers in rows],
            "top_logprobs": [{f"token_id:{v}": max(numbers[v], -9999.0) for v in [token] + best(numbers, body["logprobs"])}
                             for token, numbers in rows],
            "text_offset": [0] * len(rows)}
    choice["token_ids"] = output[len(prompt):]
    if "no-ids" not in faults:
        choice["prompt_token_ids"] = prompt
    return {"id": "cmpl-1", "choices": [choice], "system_fingerprint": faults.build,
            "usage": {"prompt_tokens": len(prompt)}}


def vllm_generate(body, faults):
    known(body, ["model", "token_ids", "sampling_params", "cache_salt", "priority"])
    how = body["sampling_params"]
    known(how, ["trace_decode_token_ids", "max_tokens", "logprobs", "temperature", "top_k"])
    if "no-replay" in faults:
        raise Refused(403, "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out.")
    if "no-trace" in faults:
        raise Refused(400, "trace_decode_token_ids is set but trace replay is not enabled. "
                           "Start the engine with --enable-trace-replay to use it.")
    forced = how["trace_decode_token_ids"][: how["max_tokens"]]
    prompt = body["token_ids"]
    content = []
    for token, numbers in faults.scored(prompt + forced, len(prompt), how["temperature"], how.get("top_k", 0)):
        def entry(v, numbers=numbers):
            value = numbers[v] if numbers[v] != -math.inf else -9999.0
            name = {"token": "word"} if "no-ids" in faults else {"token_id": v}  # 0.32
            if "old" in faults:
                name = {"token": f"token_id:{v}", "bytes": None}
            return {**name, "logprob": value}

        order = [token] + [v for v in best(numbers, how["logprobs"]) if v != token]
        kept = order[: max(how["logprobs"], 1)]  # cut with the forced token in the list
        content.append({**entry(token), "top_logprobs": [entry(v) for v in kept]})
    if "count" in faults:
        content.pop()
        forced = forced[:-1]
    choice = {"index": 0, "logprobs": {"content": content}, "finish_reason": "length"}
    if "no-ids" not in faults:
        choice["token_ids"] = forced
    return {"request_id": "r", "model": "tiny", "choices": [choice], "system_fingerprint": faults.build}


def sglang_generate(body, faults):
    known(body, ["input_ids", "sampling_params", "return_logprob", "logprob_start_len", "top_logprobs_num",
                 "return_text_in_logprobs", "cache_salt", "priority"])
    how = body["sampling_params"]
    known(how, ["max_new_tokens", "temperature", "top_k", "top_p", "sampling_seed", "stop_token_ids"])
    prompt, start = body["input_ids"], body.get("logprob_start_len", -1)
    temperature, top_k, k = how["temperature"], how.get("top_k", 0), body["top_logprobs_num"]
    k = min(k, 2) if "few-tops" in faults else k
    meta = {"id": "x", "prompt_tokens": len(prompt), "completion_tokens": 0, "weight_version": faults.build,
            "e2e_latency": 0.5, "input_token_logprobs": [], "output_token_logprobs": []}

    def triple(value, token):
        if value == -math.inf:
            value = LOWEST
        return [value, None if "no-ids" in faults else token, None]

    output = prompt
    if start >= 0:
        rows = faults.scored(prompt, start + 1, temperature, top_k)
        entries = [[None, prompt[start], None]] + [triple(numbers[token], token) for token, numbers in rows]
        if "sentinel" in faults:
            entries[-1][0] = LOWEST
        if "null" in faults:
            entries[-1][0] = None
        tops = [None] + [[triple(numbers[v], v) for v in best(numbers, k)] for _, numbers in rows]
        if "count" in faults:
            entries.pop()
            tops.pop()
        if "shift-ids" in faults:
            entries = [[None, *entries[1][1:]]] + entries[2:] + entries[-1:]
        meta["input_token_logprobs"], meta["input_top_logprobs"] = entries, tops
    else:
        output = generated(prompt, how["max_new_tokens"], temperature, top_k, how["sampling_seed"],
                           how.get("stop_token_ids", []))
        scale = temperature if temperature > 0 and "original" not in faults else 1
        rows = [(output[t], log_softmax(shaped(logits(output[:t]), scale, 0)))
                for t in range(len(prompt), len(output))]
        meta["output_token_logprobs"] = [triple(numbers[token], token) for token, numbers in rows]
        meta["output_top_logprobs"] = [[triple(numbers[v], v) for v in best(numbers, k)] for _, numbers in rows]
    return {"text": "", "output_ids": output[len(prompt):], "meta_info": meta}


def llamacpp_completion(body, faults):
    known(body, ["prompt", "n_predict", "n_probs", "post_sampling_probs", "return_tokens", "cache_prompt",
                 "temperature", "top_k", "top_p", "min_p", "seed", "grammar", "logit_bias"])
    prompt, temperature, top_k = body["prompt"], body["temperature"], body.get("top_k", 40)
    if "grammar" in body:
        words = body["grammar"].removeprefix("root ::=").split()
        forced = [] if words == ['""'] else [int(word[2:-2]) for word in words]
        if EOS in forced or set(forced) & set(FRAGMENTS):
            raise Refused(500, "got exception: Unexpected empty grammar stack after accepting piece")
        forced += [EOS] * (body["n_predict"] > len(forced))
        output = prompt + forced[: body["n_predict"]]
    elif "logit_bias" in body:
        output = prompt + [body["logit_bias"][0][0]]
    else:
        output = generated(prompt, body["n_predict"], temperature, top_k, body["seed"], [EOS])
    k = 2 if "few-tops" in faults else body["n_probs"]
    entries = []

    def entry(v, numbers):
        if "prob" in faults:
            return {"id": v, "token": "w", "bytes": [], "prob": math.exp(numbers[v])}
        value = numbers[v] if numbers[v] != -math.inf else LOWEST
        made = {"id": v, "token": "w", "bytes": [], "logprob": value}
        if "no-ids" in faults:
            del made["id"]
        return made

    for token, numbers in faults.scored(output, len(prompt), temperature, top_k):
        top = "top_probs" if "prob" in faults else "top_logprobs"
        entries.append({**entry(token, numbers), top: [entry(v, numbers) for v in best(numbers, k)]})
    if "sentinel" in faults:
        entries[-1]["logprob"] = LOWEST
    if "count" in faults:
        entries.pop()
        output = output[:-1]
    if "shift-ids" in faults:
        entries = entries[1:] + entries[-1:]
    response = {"index": 0, "content": "", "tokens": output[len(prompt):], "stop": True, "model": "tiny",
                "tokens_evaluated": len(prompt) + ("bos" in faults)}
    entries = [entry for entry, token in zip(entries, output[len(prompt):]) if token not in FRAGMENTS]
    if entries:
        response["completion_probabilities"] = entries
    return response


def trtllm_completions(body, faults):
    known(body, ["model", "prompt", "max_tokens", "temperature", "top_k", "top_p", "seed", "stop_token_ids",
                 "logprobs", "return_context_logits", "detokenize"])
    prompt, temperature, top_k = body["prompt"], body["temperature"], body.get("top_k", 0)
    choice = {"index": 0, "text": "", "finish_reason": "length", "logprobs": None, "context_logits": None}
    if body.get("return_context_logits"):
        rows = [faults.row(prompt[: t + 1]) for t in range(len(prompt))]
        if "scaled" in faults:
            rows = [shaped(row, temperature, 0) for row in rows]
        if "processed" in faults:
            rows = [[x if x != -math.inf else -9999.0 for x in shaped(row, temperature, top_k)] for row in rows]
        if "count" in faults:
            rows.pop()
        if "shift" in faults:
            rows = rows[1:] + rows[-1:]
        choice["context_logits"] = rows
        output = prompt + [0]
    else:
        output = generated(prompt, body["max_tokens"], temperature, top_k, body["seed"], body.get("stop_token_ids", []))
        rows = [(output[t], log_softmax(logits(output[:t]))) for t in range(len(prompt), len(output))]
        choice["logprobs"] = {"tokens": ["w"] * len(rows), "token_logprobs": [numbers[t] for t, numbers in rows],
                              "top_logprobs": [{"w": 0.0}] * len(rows), "text_offset": [0] * len(rows)}
    if "no-ids" not in faults:
        choice["token_ids"] = output[len(prompt):]
    return {"id": "c", "choices": [choice], "usage": {"prompt_tokens": len(prompt)}}


def text_of(token):
    """What llama.cpp gives as a token's text: bytes that are no character come as the replacement character."""
    return "\ufffd" if token in FRAGMENTS else "</s>" if token == EOS else f"w{token}"


def tokenized(body):
    """Words "wN" are tokens; any other text is the end. A conversation begins with 1 and ends with 3."""
    if "messages" in body:
        return [1] + [int(n) for m in body["messages"] for n in re.findall(r"w(\d+)", m["content"])] + [3]
    return [int(n) for n in re.findall(r"w(\d+)", body.get("prompt", ""))] or [EOS]


POSTS = {
    ("vllm", "/v1/completions"): vllm_completions,
    ("vllm", "/inference/v1/generate"): vllm_generate,
    ("sglang", "/generate"): sglang_generate,
    ("llamacpp", "/completion"): llamacpp_completion,
    ("trtllm", "/v1/completions"): trtllm_completions,
}


def get(dialect, path, faults):
    version = "1.2.4" if faults.build == "build-2" else VERSION
    if path == "/v1/models":
        names = ["tiny", "other"] if "two-models" in faults else ["tiny"]
        meta = {"meta": {"n_vocab": VOCAB}} if dialect == "llamacpp" else {}
        return {"object": "list", "data": [{"id": name, "object": "model", **meta} for name in names]}
    if path == "/version" and dialect in ("vllm", "trtllm"):
        return {"version": version}
    if path == "/metrics" and dialect == "vllm" and "no-metrics" not in faults:
        size = "None" if "gpu-cache" in faults else "268435456"
        return "".join(f'vllm:cache_config_info{{block_size="16",engine="{engine}",kv_cache_memory_bytes="{size}"}} 1.0\n'
                       for engine in (0, 1)).encode()  # fmt: skip
    if path == "/server_info" and dialect == "sglang":
        return {"version": version, "model_path": "tiny", "dtype": "float32", "port": 1, "random_seed": 7}
    if path == "/model_info" and dialect == "sglang":
        return {"model_path": "tiny", "weight_version": "w1"}
    if path == "/props" and dialect == "llamacpp":
        return {"build_info": "b1-abc", "model_ftype": "all F32", "total_slots": 4, "eos_token": "</s>"}
    raise Refused(404, "Not Found")


class Counters:
    def __init__(self):
        self.lock = threading.Lock()
        self.in_flight = self.in_flight_max = self.scored = self.failed = self.builds = 0
        self.salts = set()
        self.barrier = threading.Barrier(64)


COUNTERS = {}
COUNTERS_LOCK = threading.Lock()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def reply(self, status, value, headers=()):
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, text in headers:
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)

    def split(self):
        _, dialect, faults, key, *rest = self.path.split("/")
        with COUNTERS_LOCK:
            self.counters = COUNTERS.setdefault(key, Counters())
        made = Faults(faults.split(","))
        made.build = "build-2" if made & {"drift", "build-2"} else "build-1"
        return dialect, made, "/" + "/".join(rest)

    def answer(self, compute):
        try:
            return self.reply(200, compute())
        except Refused as refused:
            return self.reply(refused.status, {"error": {"message": str(refused), "code": refused.status}})

    def do_GET(self):
        dialect, faults, path = self.split()
        if path == "/stats":
            c = self.counters
            return self.reply(200, {"scored": c.scored, "in_flight_max": c.in_flight_max, "salts": len(c.salts)})
        if "key" in faults and self.headers.get("Authorization") != "Bearer secret-1":
            return self.reply(401, {"error": {"message": f"wrong: {self.headers.get('Authorization')}"}})
        key = self.headers.get("Authorization", "")[len("Bearer "):]
        if "key-late" in faults:  # where a message is cut
            return self.reply(400, {"error": {"message": "x" * 296 + key}})
        if "key-as-model" in faults and path == "/v1/models":
            return self.reply(200, {"data": [{"id": key}]})
        return self.answer(lambda: get(dialect, path, faults))

    def do_POST(self):
        dialect, faults, path = self.split()
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if path == "/tokenize":
            return self.reply(200, {"tokens": tokenized(body)})
        if path == "/detokenize":
            return self.reply(200, {"content": "".join(map(text_of, body["tokens"]))})
        if "key" in faults and self.headers.get("Authorization") != "Bearer secret-1":
            return self.reply(401, {"error": {"message": f"wrong: {self.headers.get('Authorization')}"}})
        counters = self.counters
        with counters.lock:
            counters.scored += 1
            counters.in_flight += 1
            counters.in_flight_max = max(counters.in_flight_max, counters.in_flight)
            counters.salts.add(body.get("cache_salt"))
            first = counters.scored == 1
            if "other-build" in faults:
                faults.build = f"build-{counters.scored}"
        try:
            return self.score(dialect, path, body, faults, first)
        finally:
            with counters.lock:
                counters.in_flight -= 1

    def score(self, dialect, path, body, faults, first):
        if "500" in faults or ("500-once" in faults and first):
            return self.reply(500, {"error": {"message": "EngineCore encountered an issue"}})
        if "429" in faults:
            return self.reply(429, {"error": {"message": "too many"}}, [("Retry-After", "3600")])
        if "503-once" in faults and first:
            return self.reply(503, {"error": {"message": "loading"}}, [("Retry-After", "0")])
        if "html" in faults:
            return self.reply(200, b"<html>welcome</html>")
        if "slow" in faults:
            ENDED.wait(60)
        if "refuse-58" in faults and next((body[key] for key in ("prompt", "input_ids") if key in body), [0])[0] == 58:
            return self.reply(400, {"error": {"message": "a prompt that this server does not take"}})
        if "hold64" in faults:
            self.counters.barrier.wait(30)
        if "huge" in faults or "huge-said" in faults:
            return self.huge("huge-said" in faults)
        if (dialect, path) not in POSTS:
            return self.reply(404, {"error": {"message": "Not Found"}})
        if "close" in faults or ("close-once" in faults and first):
            text = json.dumps(POSTS[dialect, path](body, faults)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text[: len(text) // 2])
            self.close_connection = True
            return None
        return self.answer(lambda: POSTS[dialect, path](body, faults))

    def huge(self, said):
        self.send_response(200)
        if said:
            self.send_header("Content-Length", str(100 << 20))
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for _ in range(100):
                self.wfile.write(b" " * (1 << 20))
        except OSError:
            pass  # the client has seen enough


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # a client that hangs up is part of the tests


def main():
    server = Server(("127.0.0.1", 0), Handler)
    if len(sys.argv) == 3:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*sys.argv[1:])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"127.0.0.1:{server.server_address[1]}", flush=True)
    sys.stdin.read()
    ENDED.set()
    server.shutdown()


if __name__ == "__main__":
    main()
