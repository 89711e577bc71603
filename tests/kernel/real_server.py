#!/usr/bin/env python3
"""Starts a real server on the model of tiny_llama.py, for tests.

    real_server.py vllm|llamacpp DIR

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
READY_S = 240

LLAMACPP = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port = sys.argv[1], 0
params.n_ctx, params.n_parallel, params.warmup = 4096, 8, False
params.cpuparams.n_threads = 1
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


def vllm(folder):
    """The address, once it answers, and the process."""
    program = SERVERS / "vllm" / "bin" / "vllm"
    port = free_port()
    command = [program, "serve", folder / "hf", "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32",
               "--skip-tokenizer-init", "--max-model-len", "256", "--max-num-seqs", "64", "--enforce-eager",
               "--served-model-name", "tiny"]
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


def llamacpp(folder):
    python = SERVERS / "llamacpp" / "bin" / "python"
    log = open(folder / "llamacpp.log", "w")  # noqa: SIM115
    process = subprocess.Popen([str(python), "-c", LLAMACPP, str(folder / "tiny.gguf")], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
    for line in process.stdout:  # its own words may come first
        if line.startswith("127.0.0.1:"):
            return line.strip(), process
    sys.exit(f"llama.cpp's server does not start; see {folder / 'llamacpp.log'}")


def main():
    kind, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    if not (SERVERS / "llamacpp").exists():
        sys.exit("the servers are not installed; run tools/servers.sh")
    if not (folder / "truth.txt").exists():
        python = SERVERS / "llamacpp" / "bin" / "python"
        subprocess.run([str(python), str(ROOT / "tests/kernel/tiny_llama.py"), str(folder)], check=True)
    address, process = {"vllm": vllm, "llamacpp": llamacpp}[kind](folder)
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
