#!/usr/bin/env python3
"""Starts a real server on the model of tiny_llama.py, for tests, or on the shipped one.

    real_server.py vllm|llamacpp DIR
    real_server.py vllm|llamacpp DIR kcc-lab     as the first steps in docs/ serve it, with its tokenizer

Makes the model in DIR if it is not there, starts the server on a free port, waits until it answers,
and prints its address as the first line. Ends the server when stdin is closed. The servers are
installed by tools/servers.sh.
"""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVERS = ROOT / "build" / "servers"
SHIPPED = ROOT / "models/kcc-lab"
READY_S = 600  # half a minute on a quiet machine; other tests may run beside it

LLAMACPP = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port = sys.argv[1], 0
params.n_ctx, params.n_parallel, params.warmup = 4096, 8, False
params.cpuparams.n_threads = 1
if "exact" in sys.argv[2:]:
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
server = xllamacpp.Server(params)
print(server.listening_address.removeprefix("http://"), flush=True)
sys.stdin.read()
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# What the tiny model, whose numbers are known, is served with; the shipped model is served as a reader would.
EXACT = ["--dtype", "float32", "--skip-tokenizer-init", "--max-model-len", "256", "--max-num-seqs", "64"]


def vllm(folder, shipped):
    """The address, once it answers, and the process."""
    program = SERVERS / "vllm" / "bin" / "vllm"
    port = free_port()
    model = [SHIPPED, "--served-model-name", "kcc-lab"] if shipped else [folder / "hf", "--served-model-name", "tiny", *EXACT]
    command = [program, "serve", *model, "--host", "127.0.0.1", "--port", str(port), "--enforce-eager"]
    log = open(folder / "vllm.log", "w")  # noqa: SIM115 (the process writes to it)
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1"}
    process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                               env=environment, start_new_session=True)
    address = f"127.0.0.1:{port}"
    for _ in range(READY_S * 4):
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(f"http://{address}/health", timeout=5).read()
            return address, process
        except OSError:
            time.sleep(0.25)
    tail = (folder / "vllm.log").read_text()[-2000:]
    sys.exit(f"vLLM does not answer; its last words:\n{tail}")


def llamacpp(folder, shipped):
    model = [folder / "kcc-lab.gguf"] if shipped else [folder / "tiny.gguf", "exact"]
    python = SERVERS / "llamacpp" / "bin" / "python"
    log = open(folder / "llamacpp.log", "w")  # noqa: SIM115
    process = subprocess.Popen([str(python), "-c", LLAMACPP, *map(str, model)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
    for line in process.stdout:  # its own words may come first
        if line.startswith("127.0.0.1:"):
            return line.strip(), process
    sys.exit(f"llama.cpp's server does not start; see {folder / 'llamacpp.log'}")


def main():
    kind, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    if not (SERVERS / "llamacpp").exists():
        sys.exit("the servers are not installed; run tools/servers.sh")
    shipped = sys.argv[3:] == ["kcc-lab"]
    if shipped:
        folder.mkdir(exist_ok=True)
        subprocess.run([str(ROOT / ".venv/bin/python"), "-m", "kcc.model.gguf", str(SHIPPED), str(folder / "kcc-lab.gguf")],
                       env={**os.environ, "PYTHONPATH": str(ROOT / "python")}, check=True)  # fmt: skip
    elif not (folder / "truth.txt").exists():
        python = SERVERS / "llamacpp" / "bin" / "python"
        subprocess.run([str(python), str(ROOT / "tests/kernel/tiny_llama.py"), str(folder)], check=True)
    address, process = {"vllm": vllm, "llamacpp": llamacpp}[kind](folder, shipped)
    try:
        print(address, flush=True)
        sys.stdin.read()
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


if __name__ == "__main__":
    main()
