"""kcc requests make: text in, a requests file out that every other command takes."""

import http.server
import json
import pathlib
import sys
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOKENIZER = ROOT / "models/kcc-lab/tokenizer.json"
PYTHON = {"PYTHONPATH": str(ROOT / "python")}
PROMPTS = [
    {"id": "sum", "prompt": "<s><user>6+7<assistant>", "output": "13</s>", "tags": ["arithmetic"], "hard": 2.5},
    {"prompt": "<s><user>Grüße<assistant>", "output": "ja"},
]


@pytest.fixture
def prompts(tmp_path):
    def write(rows):
        path = tmp_path / "prompts.jsonl"
        path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
        return path

    return write


def make(kcc, path, out, *flags):
    return kcc("requests", "make", path, "-o", out, *flags, env=PYTHON)


def test_a_tokenizer_file_gives_the_ids(kcc, prompts, tmp_path):
    out = tmp_path / "r.jsonl"
    done = make(kcc, prompts(PROMPTS), out, "--tokenizer", TOKENIZER, "--python", sys.executable)
    assert (done.code, done.err) == (0, ""), done.err
    assert done.out == f"{out}: 2 requests, 16 tokens of prompts, 5 tokens of outputs\n"
    first, second = map(json.loads, out.read_text().splitlines())
    assert first == {"id": "sum", "prompt": [256, 259, *b"6+7", 260], "output": [*b"13", 257],
                     "tags": ["arithmetic"], "hard": 2.5}
    assert second == {"id": "line-2", "prompt": [256, 259, *"Grüße".encode(), 260], "output": list(b"ja")}
    folder = make(kcc, prompts(PROMPTS), tmp_path / "again", "--tokenizer", TOKENIZER.parent, "--python",
                  sys.executable, "--json")
    assert folder.json == {"kccRequests": 1, "file": str(tmp_path / "again"), "requests": 2, "promptTokens": 16,
                           "outputTokens": 5}
    scored = kcc("score", "lab:f32", "--requests", out, "-o", tmp_path / "trace", "--json")
    assert scored.code == 0 and scored.json["tokens"] == 5


def test_prompts_alone_are_to_be_generated(kcc, prompts, tmp_path):
    out = tmp_path / "r.jsonl"
    done = make(kcc, prompts([{"prompt": "a"}, "", {"prompt": "bc"}]), out, "--tokenizer", TOKENIZER, "--python",
                sys.executable)
    assert done.code == 0, done.err
    assert [json.loads(line)["id"] for line in out.read_text().splitlines()] == ["line-1", "line-3"]
    assert kcc("generate", "lab:f32", "--requests", out, "--max-tokens", "2", "-o", tmp_path / "t").code == 0


@pytest.mark.parametrize(
    ("rows", "code", "words"),
    [
        (["{"], 2, "prompts.jsonl:1: error: "),
        (["[1]"], 2, "prompts.jsonl:1: error: a line must be an object"),
        ([{"output": "x"}], 2, "'prompt' is missing or empty"),
        ([{"prompt": [1, 2]}], 2, "'prompt' must be a text, it is a list; a file of token ids is a requests file"),
        ([{"messages": []}], 2, "chat template"),
        ([{"prompt": "a", "output": "b"}, "", {"prompt": "a"}], 2, "prompts.jsonl:3: error: 'output' is missing"),
        ([{"prompt": "a", "id": "x"}, "", {"prompt": "b", "id": "x"}], 2,
         "prompts.jsonl:3: error: the request id 'x' stood already in line 1"),
        ([{"prompt": "a", "latency_ms": 3}], 2, "prompts.jsonl:1: error: 'latency_ms' is what a kernel's own run"),
        ([], 2, "holds no prompt"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_written(kcc, prompts, tmp_path, rows, code, words):
    out = tmp_path / "r.jsonl"
    done = make(kcc, prompts(rows), out, "--tokenizer", TOKENIZER, "--python", sys.executable)
    assert (done.code, done.out) == (code, "")
    assert words in done.err
    assert not out.exists()


def test_what_is_wrong_with_the_tokenizer_is_said(kcc, prompts, tmp_path):
    path, out = prompts(PROMPTS), tmp_path / "r.jsonl"
    assert "say which tokenizer: --tokenizer FILE or --server URI" in make(kcc, path, out).err
    both = make(kcc, path, out, "--tokenizer", TOKENIZER, "--server", "openai+http://h:1?server=vllm")
    assert both.code == 2 and "two tokenizers; give one" in both.err
    none = make(kcc, path, out, "--tokenizer", tmp_path / "none.json", "--python", sys.executable)
    assert none.code == 4 and "none.json: " in none.err
    program = make(kcc, path, out, "--tokenizer", TOKENIZER, "--python", tmp_path / "none")
    assert program.code == 4 and "cannot start" in program.err
    package = kcc("requests", "make", path, "-o", out, "--tokenizer", TOKENIZER, "--python", "/usr/bin/python3",
                  cwd=tmp_path, env={"PYTHONPATH": ""})
    assert package.code == 4 and "install the Python package (pip install .)" in package.err
    assert not out.exists()


@pytest.fixture
def tokenizing_server():
    """/v1/models and /tokenize in the words of a dialect: a byte is its own id, 256 begins a sequence."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self, value, status=200):
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self.answer({"data": [{"id": "m"}]})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append((self.path, body))
            if body.get("prompt", body.get("content")) == "refuse":
                return self.answer({"error": {"message": "too long"}}, 400)
            llamacpp = "content" in body
            text = body["content"] if llamacpp else body["prompt"]
            begins = body["add_special"] if llamacpp else body["add_special_tokens"]
            self.answer({"tokens": [256] * begins + list(text.encode())})
            return None

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"openai+http://127.0.0.1:{server.server_port}", asked
    server.shutdown()


@pytest.mark.parametrize("dialect", ["vllm", "sglang", "llamacpp"])
def test_a_server_gives_the_ids(kcc, prompts, tmp_path, tokenizing_server, dialect):
    address, asked = tokenizing_server
    out = tmp_path / "r.jsonl"
    done = make(kcc, prompts([{"id": "é", "prompt": "hé", "output": "x"}] * 1), out, "--server",
                f"{address}?server={dialect}")
    assert done.code == 0, done.err
    assert json.loads(out.read_text()) == {"id": "é", "prompt": [256, *"hé".encode()], "output": [120]}
    assert {path for path, _ in asked} == {"/tokenize"} and len(asked) == 2
    assert all(body.get("model", "m") == "m" for _, body in asked)


def test_a_server_that_cannot_is_named(kcc, prompts, tmp_path, tokenizing_server):
    address, _ = tokenizing_server
    out = tmp_path / "r.jsonl"
    path = prompts([{"prompt": "refuse"}])
    assert "status 400: too long" in make(kcc, path, out, "--server", f"{address}?server=vllm").err
    none = make(kcc, path, out, "--server", f"{address}?server=trtllm")
    assert none.code == 2 and "TensorRT-LLM has no route that tokenises; use --tokenizer FILE" in none.err
    pasted = make(kcc, path, out, "--server", address.replace("openai+", ""))
    assert pasted.code == 2 and "?server=NAME', where server is vllm" in pasted.err
    trace = make(kcc, path, out, "--server", "lab:f32")
    assert trace.code == 2 and "--server takes openai+http://" in trace.err
    assert not out.exists()
