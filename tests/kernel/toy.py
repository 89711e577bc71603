"""An exec kernel for tests: the logits follow from the tokens by a formula. Its first argument names
a fault; only the standard library is used, so that it starts in no time.

    toy.py [FAULT] [--vocab V] [--noise X] [--pid-file F] [--seen F]
"""

import argparse
import array
import hashlib
import json
import os
import signal
import struct
import subprocess
import sys
import time

parser = argparse.ArgumentParser()
parser.add_argument("fault", nargs="?", default="none")
parser.add_argument("--vocab", type=int, default=11)
parser.add_argument("--noise", type=float, default=0.0)
parser.add_argument("--pid-file")  # its process id, and those of its children
parser.add_argument("--seen")  # the directory of the last file asked for
args = parser.parse_args()


def note_pid(pid):
    if args.pid_file:
        with open(args.pid_file, "a") as out:
            out.write(f"{pid}\n")


note_pid(os.getpid())
fault = args.fault
if fault == "crash-at-start":
    print("cannot find the weights", file=sys.stderr)
    sys.exit(3)
if fault == "with-child":
    note_pid(subprocess.Popen(["sleep", "1000"]).pid)
if "daemon" in fault:  # a grandchild with a session of its own, whose parent is gone: nobody's group holds it
    script = "import os, sys, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0);" \
             "print(os.getpid(), file=open(sys.argv[1], 'a')); os.close(0); os.close(1); os.close(2); time.sleep(1000)"
    subprocess.run([sys.executable, "-c", script, args.pid_file], check=True)
    while len(open(args.pid_file).readlines()) < 2:
        time.sleep(0.01)
if fault == "deaf":  # will not go by itself
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    note_pid(subprocess.Popen(["sleep", "1000"], preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN)).pid)


rows_made = 0


def logits(context):
    """One row, from the last token and the length alone; `wavers` gives another each time."""
    global rows_made
    rows_made += 1
    row = array.array("f")
    for v in range(args.vocab):
        base = ((context[-1] * 31 + len(context) * 17 + v * 7) % 23) / 5.0
        wavering = 5e-5 * v * (rows_made % 97) if fault == "wavers" else 0.0
        row.append(base + wavering + args.noise * (((v * 13 + len(context)) % 7) - 3))
    return row


def write(path, request, position, token, rows, width, dtype="F32"):
    header, offset = {}, 0
    columns = [("request", "I32", [len(request)], array.array("i", request)),
               ("position", "I32", [len(position)], array.array("i", position)),
               ("token", "I32", [len(token)], array.array("i", token)),
               ("logits", dtype, [len(token), width], rows)]
    for name, kind, shape, data in columns:
        size = len(data) * data.itemsize
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + 8) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for *_, data in columns:
            out.write(data.tobytes())


def say(message, times=1):
    sys.stdout.write((json.dumps(message) + "\n") * times)
    sys.stdout.flush()


def score(message):
    request, position, token, rows = [], [], [], array.array("f")
    for i, asked in enumerate(message["requests"]):
        for p in range(asked["promptTokens"], len(asked["tokens"])):
            request.append(i)
            position.append(p)
            token.append(asked["tokens"][p])
            rows.extend(logits(asked["tokens"][:p]))
    width, dtype = args.vocab, "F32"
    if fault == "nan":
        rows[-1] = float("nan")
    if fault == "infinity":
        rows[0] = float("inf")
    if fault == "narrow":
        width -= 1
        rows = rows[: len(token) * width]
    if fault == "fewer-rows":
        request, position, token, rows = request[:-1], position[:-1], token[:-1], rows[:-width]
    if fault == "shifted":
        position = [p - 1 for p in position]
    if fault == "integers":
        dtype, rows = "I32", array.array("i", [1] * len(rows))
    if fault == "other-token":
        token[0] = (token[0] + 1) % args.vocab
    if fault != "no-file":
        write(message["file"], request, position, token, rows, width, dtype)
    if fault == "truncated":
        os.truncate(message["file"], os.path.getsize(message["file"]) - 5)
    if fault == "fifo":
        os.unlink(message["file"])
        os.mkfifo(message["file"])


def continuation(asked, sampling):
    seed = asked["seed"] if sampling["temperature"] > 0 else 0
    tokens = []
    for i in range(min(4, sampling["outputTokensMax"])):
        digest = hashlib.sha256(f"{seed} {asked['tokens']} {i}".encode()).digest()
        tokens.append(digest[0] % args.vocab)
        if tokens[-1] in sampling["stop"]:
            break
    return tokens


def generated(message):
    answers = []
    for asked in message["requests"]:
        if fault == "fails-one" and not answers:
            answers.append({"id": asked["id"], "failed": True})
            continue
        tokens = continuation(asked, message["sampling"])
        answers.append({"id": asked["id"], "tokens": tokens, "logprobs": [-0.5] * len(tokens),
                        "latencyMs": 12.5, "ttftMs": 2.5,
                        "fields": {"refused": asked["fields"].get("harmful", False)}})
    return answers


def answer(message):
    kind = message["type"]
    if kind == "hello":
        if fault == "hang-at-start":
            time.sleep(1000)
        if fault == "chatter":
            print("Loading model…", flush=True)
        reply = {"type": "hello", "protocol": 1, "fingerprint": f"toy-1 noise={args.noise}", "vocabSize": args.vocab,
                 "evidence": "logits", "semantics": "raw", "generates": True,
                 "options": [{"name": "noise", "value": str(args.noise), "source": "precision"}]}
        if fault == "other-protocol":
            reply["protocol"] = 2
        if fault == "misspelt":
            reply["semantic"] = reply.pop("semantics")
        return reply
    if kind == "bye":
        if fault == "no-bye":
            time.sleep(1000)
        return {"type": "bye"}
    batch, ids = message["batch"], [asked["id"] for asked in message["requests"]]
    if fault == "generates-outside" and kind == "generate":
        return {"type": "generated", "batch": batch, "fingerprint": f"toy-1 noise={args.noise}",
                "requests": [{"id": i, "tokens": [args.vocab]} for i in ids]}
    if kind == "generate":
        return {"type": "generated", "batch": batch, "fingerprint": f"toy-1 noise={args.noise}",
                "requests": generated(message)}
    if args.seen:
        with open(args.seen, "w") as out:
            out.write(os.path.dirname(message["file"]))
    if fault in ("crash", "daemon-crash"):
        print("CUDA error: an illegal memory access", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if fault == "crash-after-answer" and batch == 2:
        sys.exit(7)
    if fault in ("hang", "deaf", "with-child", "daemon-hang"):
        print("still thinking", file=sys.stderr, flush=True)
        time.sleep(1000)
    if fault == "flood":
        sys.stderr.write("\x1b[31mwarning: a line that repeats\x1b[0m\n" * 200_000)
        sys.stderr.flush()
    if fault == "flood-and-fail":
        sys.stderr.write("noise\n" * 200_000 + "the last word\n")
        sys.stderr.flush()
        sys.exit(1)
    if fault == "endless-line":
        while True:
            sys.stdout.write("x" * 65536)
    if fault == "not-json":
        print("oops {", flush=True)
        time.sleep(1000)
    if fault == "says-error":
        return {"type": "error", "message": "out of memory"}
    score(message)
    reply = {"type": "scored", "batch": batch, "fingerprint": f"toy-1 noise={args.noise}", "requests": ids, "engineMs": 1.5}
    if fault == "wrong-batch":
        reply["batch"] = batch + 1
    if fault == "wrong-order":
        reply["requests"] = ids[::-1]
    if fault == "lost-request":
        reply["requests"] = ids[:-1]
    if fault == "fingerprint":
        reply["fingerprint"] = "toy-2"
    return reply


for line in sys.stdin:
    message = json.loads(line)
    say(answer(message), times=2 if fault == "twice" and message["type"] == "score" else 1)
    if message["type"] == "bye":
        break
