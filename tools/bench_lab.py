#!/usr/bin/env python3
"""Prints the lab's throughput beside llama.cpp's on the same model, machine and number of threads.

f32 against F32, int8 against Q8_0; prefill of 512 tokens and decoding of 128. llama.cpp's figures are
its own counters', the lab's include sampling. Without the npm package (tools/setup.sh) the lab's figures
are printed alone.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ROOT / "models" / "kcc-lab"
PAIRS = {"f32": "F32", "int8": "Q8_0"}
LIMIT = 3.0  # the lab may be this many times slower


def llama_cpp(file, prompt, output, threads):
    command = ["node", "adapters/llamacpp/bench.mjs", str(file), str(prompt), str(output), str(threads)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def gguf_files(directory):
    """The model as F32 and, by the engine's own quantiser, as Q8_0."""
    python = [sys.executable, "-m"]
    environment = {"PYTHONPATH": str(ROOT / "python"), "PATH": "/usr/bin:/bin"}
    plain = pathlib.Path(directory) / "f32.gguf"
    small = pathlib.Path(directory) / "q8_0.gguf"
    for command in (
        [*python, "kcc.model.gguf", str(MODEL), str(plain)],
        [*python, "kcc.model.quantize", str(plain), str(small), "Q8_0"],
    ):
        subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    return {"f32": plain, "int8": small}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    threads = parser.parse_args().threads
    bench = ROOT / "build" / "release" / "bench" / "lab_bench"
    lab = json.loads(subprocess.run([bench, "--json", "--threads", str(threads)], cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    if not (ROOT / "adapters" / "llamacpp" / "node_modules").exists():
        print("llama.cpp is not installed (tools/setup.sh); the lab alone, tokens/s:")
        print(json.dumps(lab, indent=2))
        return 0
    worst = 0.0
    print(f"{'':22}{'lab':>12}{'llama.cpp':>12}{'llama.cpp / lab':>18}   tokens/s, threads: {threads}")
    with tempfile.TemporaryDirectory() as directory:
        files = gguf_files(directory)
        for weights, name in PAIRS.items():
            other = llama_cpp(files[weights], lab["promptTokens"], lab["outputTokens"], threads)
            for phase in ("prefill", "decode"):
                ratio = other[phase] / lab[weights][phase]
                worst = max(worst, ratio)
                label = f"{weights} and {name}, {phase}"
                print(f"{label:22}{lab[weights][phase]:12.0f}{other[phase]:12.0f}{ratio:18.2f}")
    print(f"within {LIMIT:g}x: {'yes' if worst <= LIMIT else 'NO'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
