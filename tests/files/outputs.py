"""Every output of every command, as a table: how it is made, in two variants, and what it may look like when something went wrong.

An output lives in a directory of its own, with the command's scratch space: what is in there and not expected is a leftover.
"""

import dataclasses
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEMPORARY = re.compile(r"\.kcc-[a-z2-7]{10}\.tmp")
CLOCK = re.compile(rb'"(latency|ttft|started_at)_ms":[^,}]+,?')  # what kcc generate measures, in requests.jsonl
SCRATCH_ALONE = ("attribute", "replay")  # write nothing but what they remove at the end
LOCK = ".kcc-report.lock"  # an empty file that means nothing: a killed run leaves it, the next one takes it
CONTRACT = """\
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: NAME, version: 1.0.0}
spec:
  decision: {about: evaluation-set}
  numerical:
    - {id: N-1, metric: max_kl, atMost: 100, level: L3}
"""
MESSY = "# ours\n" + CONTRACT.replace("{name: NAME, version: 1.0.0}", "{version: 1.0.0, name: c}")


@dataclasses.dataclass
class Output:
    name: str
    arguments: dict  # variant -> the command line; {} is the output's directory
    vouches: str = ""  # the file that stands only where all others are of its run
    gone: bool = False  # a failed run leaves nothing rather than what was there
    fresh: bool = False  # what exists already is not replaced
    start: str = ""  # what the file `start_name` holds before the first run; else variant a's run makes it
    start_name: str = ""

    def command(self, kcc_path, directory, variant):
        return [str(kcc_path), *(str(word).replace("{}", str(directory)) for word in self.arguments[variant])]


def read(directory):
    """What stands there for all to see: name -> bytes; and the leftovers."""
    seen, left = {}, []
    for folder, folders, files in os.walk(directory):
        for name in sorted(folders):
            if TEMPORARY.fullmatch(name):
                left.append(name)
        folders[:] = [name for name in folders if not TEMPORARY.fullmatch(name)]
        for name in files:
            path = pathlib.Path(folder) / name
            if TEMPORARY.fullmatch(name) or name == LOCK:
                left.append(name)
            else:
                seen[str(path.relative_to(directory))] = CLOCK.sub(b"", path.read_bytes()) if name == "requests.jsonl" else path.read_bytes()
    return seen, left


class Bench:
    """One output, its directory, and the states that it may be in."""

    def __init__(self, output, kcc_path, directory):
        self.output, self.kcc_path, self.directory = output, kcc_path, directory
        self.states = {}
        for variant in ("b", "a"):
            self.empty()
            assert self.run(variant).returncode == 0, self.last
            self.states[variant], left = read(directory)
            assert left == [] and self.states[variant] or output.name in SCRATCH_ALONE
        self.begin()
        self.states["old"], _ = read(directory)

    def empty(self):
        shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir()
        if self.output.start_name:
            (self.directory / self.output.start_name).write_text(self.output.start)

    def begin(self):
        """To the old state, without leftovers."""
        if not self.output.fresh and not self.output.start_name and "old" in self.states:
            seen, left = read(self.directory)
            if seen == self.states["old"] and not left:
                return
        self.empty()
        if not self.output.fresh and not self.output.start_name:
            if "old" not in self.states:
                assert self.run("a").returncode == 0, self.last
            else:
                for name, text in self.states["old"].items():
                    (self.directory / name).parent.mkdir(exist_ok=True)
                    (self.directory / name).write_bytes(text)

    def start(self, variant, env=None):
        return subprocess.Popen(self.output.command(self.kcc_path, self.directory, variant), stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | (env or {}))  # fmt: skip

    def run(self, variant, env=None):
        process = self.start(variant, env)
        _, process.err = process.communicate(timeout=60)
        self.last = process.err
        return process

    def is_whole(self, seen):
        """Nothing half, nothing mixed; where a file vouches for others, its absence says that they are not finished."""
        states = self.states.values()
        if seen in states or (seen == {} and (self.output.gone or self.output.fresh)):
            return True
        if not self.output.vouches or self.output.vouches in seen:
            return False
        return all(any(state.get(name) == text for state in states) for name, text in seen.items())


def sha256(path):
    return "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()


def table(inputs):
    """All of them. `inputs` makes the files that commands read: see conftest.py."""
    trace = [inputs / "train", inputs / "infer"]
    sides = ["--train", trace[0], "--infer", trace[1]]
    imports = ROOT / "tests/data/import"
    one, rl = ["--requests", inputs / "one.jsonl"], ROOT / "examples/rl/step.safetensors"
    scratch = ["--scratch", "{}"]
    vllm = ["import", "vllm", imports / "vllm/generate.jsonl", "--vocab-size", 1000, "-o", "{}/t"]
    npy = ["import", "npy", imports / "npy/flat.npz", "-o", "{}/t"]

    def variants(*words, a=(), b=()):
        return {"a": [*words, *a], "b": [*words, *b]}

    def contracts(*words):
        return {v: [words[0], inputs / f"{v}.yaml", *words[1:]] for v in "ab"}

    report = {"vouches": "report/report.json", "gone": True}
    lab = ["lab", "e2", "--quick", "--max-requests", 1, "--length", 0, "-o", "{}"]
    return [
        Output("measure", {"a": ["measure", *trace, "-o", "{}/s.kccs"], "b": ["measure", *trace[::-1], "-o", "{}/s.kccs"]}),
        Output("measure engines", variants("measure", *one, *scratch, "-o", "{}/s.kccs",
                                           a=["lab:f32", "lab:fp8"], b=["lab:f32", "lab:bf16"])),
        Output("merge", variants("merge", "-o", "{}/s.kccs", a=[inputs / "one.kccs"], b=[inputs / "two.kccs"])),
        Output("run", contracts("run", *sides, "--report", "{}/report"), **report),
        Output("run summary", {"a": [*contracts("run", *sides)["a"], "--summary", "{}/s.kccs"],
                               "b": [*contracts("run", "--train", trace[1], "--infer", trace[0])["b"], "--summary", "{}/s.kccs"]}),
        Output("run engines", contracts("run", "--train", "lab:f32", "--infer", "lab:fp8", *one, *scratch, "--report", "{}/report"), **report),
        Output("judge", contracts("judge", inputs / "one.kccs", "--report", "{}/report", "--sarif"), **report),
        Output("report", {v: ["report", inputs / f"{v}.json", "-o", "{}/report"] for v in "ab"}, **report),
        Output("author", variants("author", "--reward-max", 1, "-o", "{}/c.yaml", a=["--reward-drift", 0.02], b=["--reward-drift", 0.03])),
        Output("fmt", variants("fmt", "-i", "{}/c.yaml", a=["--drop-comments"]), start=MESSY, start_name="c.yaml"),
        Output("import", variants(*vllm, a=["--fingerprint", "a"], b=["--fingerprint", "b"]), fresh=True),
        Output("import npy", variants(*npy, a=["--fingerprint", "a"], b=["--fingerprint", "b"]), fresh=True),
        Output("import --replace", variants(*vllm, "--replace", a=["--fingerprint", "a"], b=["--fingerprint", "b"])),
        Output("score", variants("score", *one, *scratch, "-o", "{}/t", a=["lab:f32"], b=["lab:bf16"]), fresh=True),
        Output("generate", variants("generate", *one, *scratch, "--max-tokens", 4, "-o", "{}/t", a=["lab:f32"], b=["lab:bf16"]), fresh=True),
        Output("attribute page", variants("attribute", "--train", "lab:f32", *one, *scratch, "-o", "{}/a.html", a=["--infer", "lab:fp8"],
                                          b=["--infer", "lab:bf16"])),
        Output("attribute", variants("attribute", "--train", "lab:f32", *one, *scratch, a=["--infer", "lab:fp8"], b=["--infer", "lab:bf16"])),
        Output("replay", variants("replay", inputs / "stored.json", "--train", "lab:f32?threads=1", "--infer", "lab:bf16?threads=1",
                                  "--no-attribution", *scratch, b=["--alone"])),
        Output("lab", variants(*lab, a=["--engine", "f32"], b=["--engine", "bf16"]), vouches="e2.json"),
        Output("monitor simulate", variants("monitor", "simulate", ROOT / "examples/monitor/contract.yaml", "--policy", ROOT / "examples/monitor/policy.yaml",
                                            "--clause", "N-1", "--runs", 50, "--observations", 1000, "-o", "{}/sim", a=["--seed", 1], b=["--seed", 2]),
               vouches="operating.json"),
        Output("rl diagnose", variants("rl", "diagnose", "-o", "{}/s.kccrl", a=[rl], b=[inputs / "step.npz"])),
        Output("rl correct", variants("rl", "correct", rl, "-o", "{}/w.safetensors",
                                      a=["--rule", '{"weight": {"mode": "truncate", "high": 3}}'], b=["--rule", '{"weight": {"mode": "truncate", "high": 2}}'])),
        Output("requests", variants("requests", "make", "--tokenizer", "none", "--python", inputs / "tokens.sh", "-o", "{}/r.jsonl",
                                    a=[inputs / "a.prompts"], b=[inputs / "b.prompts"])),
        Output("register export", {v: ["register", "export", "{}/t", "--register", inputs / f"{v}.db"] for v in "ab"}, fresh=True),
        Output("register page", {v: ["register", "page", "--register", inputs / f"{v}.db", "-o", "{}/r.html"] for v in "ab"}),
        Output("register blob", {v: ["register", "blob", sha256(inputs / f"{v}.yaml"), "--register", inputs / f"{v}.db", "-o", "{}/b"]
                                 for v in "ab"}),
        Output("register head", {v: ["register", "head", "--register", inputs / f"{v}.db", "--key", inputs / "key.pem", "--time",
                                     "2026-11-18T09:30:00Z", "-o", "{}/h.json"] for v in "ab"}),
        Output("register attest", {v: ["register", "attest", inputs / f"{v}.json", "--key", inputs / "key.pem", "--time",
                                       "2026-11-18T09:30:00Z", "-o", "{}/e.json"] for v in "ab"}),
        Output("register stamp", {v: ["register", "stamp", rl, "--contract", "sha256:" + v * 64, "--triple", "sha256:" + "c" * 64,
                                      "-o", "{}/m.safetensors"] for v in "ab"}),
        Output("rl replay", variants("rl", "replay", "-o", "{}/r.html", a=[rl], b=[inputs / "step.npz"])),
        Output("rl judge", {v: ["rl", "judge", inputs / f"{v}-sampled.yaml", rl, "--report", "{}/report"] for v in "ab"}, **report),
    ]  # fmt: skip


NAMES = ["measure", "measure engines", "merge", "run", "run summary", "run engines", "judge", "report", "author", "fmt", "import", "import npy",
         "import --replace", "score", "generate", "attribute page", "attribute", "replay", "lab", "monitor simulate", "rl diagnose", "rl correct", "requests",
         "register export", "register page", "register blob", "register head", "register attest", "register stamp", "rl replay", "rl judge"]  # fmt: skip
