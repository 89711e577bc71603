#!/usr/bin/env python3
"""What the exec protocol costs beside the engine's own time, with the PyTorch adapter on 10,000 tokens.

    bench/exec_overhead.py [--tokens 10000] [--vocab 320]

A relay stands between kcc and the adapter and looks at the clock: from the first question to the last answer's
acceptance (kcc's next word) is the wall time, `engineMs` in the answers the engine's. The difference is everything else:
JSON, the file, kcc's checks, and the trace that `kcc score` keeps and forces to the disk, which is no part of the protocol.
Fails above 5 %. With --vocab 32000 it fails: the rows are then 128 kB each beside 0.4 ms of engine (docs/kernels.md).
"""

import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def relay(report, command):
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    engine = adapter = 0.0
    first = last = None
    for line in sys.stdin.buffer:
        asked = time.perf_counter()
        child.stdin.write(line)
        child.stdin.flush()
        answer = child.stdout.readline()
        said = json.loads(answer)
        if said["type"] == "scored":
            first = first or asked
            engine += said["engineMs"] / 1000
            adapter += time.perf_counter() - asked
        elif said["type"] == "bye":
            last = asked
            pathlib.Path(report).write_text(json.dumps({"engine": engine, "adapter": adapter, "wall": last - first}))
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()
    sys.exit(child.wait())


def make_model(folder, vocab):
    import torch
    import transformers

    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=vocab, hidden_size=256, intermediate_size=768, num_hidden_layers=4, num_attention_heads=8,
        num_key_value_heads=4, max_position_embeddings=1024,
    )
    model = transformers.LlamaForCausalLM(config)
    model.save_pretrained(folder)
    return sum(p.numel() for p in model.parameters())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=10_000)
    parser.add_argument("--vocab", type=int, default=320)
    parser.add_argument("--relay", help=argparse.SUPPRESS)
    args, command = parser.parse_known_args()
    if args.relay:
        return relay(args.relay, command)

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        parameters = make_model(folder / "model", args.vocab)
        rng = random.Random(1)
        with open(folder / "r.jsonl", "w") as out:
            for i in range(args.tokens // 250):
                tokens = [rng.randrange(args.vocab) for _ in range(266)]
                out.write(json.dumps({"id": str(i), "prompt": tokens[:16], "output": tokens[16:]}) + "\n")
        adapter = f"{sys.executable} -m kcc.kernels.torch_lm {folder}/model --threads 1"
        kernel = (f"exec:/usr/bin/env PYTHONPATH={ROOT}/python {sys.executable} {__file__} "
                  f"--relay {folder}/times.json {adapter}")
        subprocess.run([os.environ.get("KCC_BINARY", ROOT / "build/kcc"), "score", kernel, "--requests", folder / "r.jsonl", "-o", folder / "t"], check=True)
        times = json.loads((folder / "times.json").read_text())
    share = (times["wall"] - times["engine"]) / times["engine"]
    print(f"{args.tokens} tokens, V = {args.vocab}, {parameters / 1e6:.1f} M parameters, f32, 1 thread: "
          f"engine {times['engine']:.2f} s, wall {times['wall']:.2f} s")
    print(f"beside the engine {100 * share:.1f} % ({1000 * (times['adapter'] - times['engine']):.0f} ms in the adapter, "
          f"{1000 * (times['wall'] - times['adapter']):.0f} ms in kcc)")
    assert share < 0.05, "the protocol costs more than 5 %"


if __name__ == "__main__":
    main()
