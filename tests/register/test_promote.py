"""kcc promote on a register: people, hooks, turns, and what is asked wrongly."""

import http.server
import json
import threading

import pytest

INFER = "4bc15cb1"  # beginnings of the triples' digests
FIXED = "f3e7896a"
POLICY = """
apiVersion: kcc/v1
kind: PromotionPolicy
metadata: {name: p, version: 1.0.0}
spec:
  offline: {%s}
  shadow: {minRequests: 100}
  full: {}
%s
"""


class Promoter:
    """One register with two builds, and a clock that the test moves."""

    def __init__(self, kcc, folder):
        self.kcc = kcc
        self.folder = folder
        self.minute = 0
        self.uri = folder / "r.db"
        assert kcc("register", "init", "--register", self.uri).code == 0
        for build in ("infer", "fixed"):
            self.judge(build)

    def flags(self):
        self.minute += 1
        return ["--register", self.uri, "--actor", "ann", "--time", f"2026-11-18T08:{self.minute:02}:00Z"]

    def judge(self, build):
        outcome = self.kcc("run", "examples/contract.yaml", "examples/traces/train", f"examples/traces/{build}",
                           "--model", "tiny-1", *self.flags())
        assert "recorded as evaluation" in outcome.out, outcome.err

    def policy(self, offline="", more=""):
        path = self.folder / "policy.yaml"
        path.write_text(POLICY % (offline, more))
        return path

    def start(self, name, candidate=FIXED, policy=None, *more):
        return self("start", name, "--lane", "chat", "--policy", policy or self.policy(), "--candidate", candidate, *more)

    def __call__(self, command, *arguments):
        return self.kcc("promote", command, *arguments, *self.flags())

    def phase(self, name):
        return json.loads(self.kcc("promote", "status", name, "--json", "--register", self.uri).out)[0]["phase"]


@pytest.fixture
def promote(kcc, tmp_path):
    return Promoter(kcc, tmp_path)


def test_a_good_build_leaves_offline_and_a_bad_one_is_rejected(promote):
    assert promote.start("good").code == 0
    promote.judge("fixed")
    outcome = promote("advance", "good")
    assert (outcome.code, promote.phase("good")) == (3, "shadow")
    assert "mirror 100% to it" in outcome.out
    assert promote("abort", "good", "--why", "enough").code == 0
    assert promote.start("bad", INFER).code == 0
    promote.judge("infer")
    outcome = promote("advance", "bad")
    assert (outcome.code, promote.phase("bad")) == (1, "rejected")
    assert "N-1 (L3) is violated: on slice long-context" in outcome.out
    assert promote.kcc("register", "verify", "--register", promote.uri).code == 0


def test_an_approval_is_needed_and_not_the_proposers(promote):
    promote.start("p", FIXED, promote.policy("approvals: {count: 1, roles: [owner]}"))
    promote.judge("fixed")
    promote("advance", "p")
    assert promote.phase("p") == "offline"
    promote("approve", "p", "--role", "owner")  # ann proposed it
    assert promote.phase("p") == "offline"
    flags = ["--register", promote.uri, "--time", "2026-11-18T09:00:00Z"]
    promote.kcc("promote", "approve", "p", "--role", "guest", "--actor", "eve", *flags)
    assert promote.phase("p") == "offline"
    promote.kcc("promote", "approve", "p", "--role", "owner", "--actor", "bob", *flags)
    assert promote.phase("p") == "shadow"
    listed = json.loads(promote.kcc("register", "list", "approvals", "--json", "--register", promote.uri).out)
    assert len(listed["entries"] if isinstance(listed, dict) else listed) == 3


@pytest.mark.parametrize(("program", "phase"), [("true", "offline"), ("echo no >&2; false", "proposed"), ("sleep 60", "proposed")])
def test_a_program_is_asked_before_it_begins_and_silence_is_no(promote, program, phase):
    hook = f'  hooks:\n    - {{point: confirm-rollout, name: gate, exec: "{program}", timeout: 1s}}'
    outcome = promote.start("p", FIXED, promote.policy("", hook))
    assert (outcome.code, promote.phase("p")) == (0, phase), outcome.err
    assert ("hook gate said no" in outcome.err) == (phase == "proposed")
    # What the program would say can be said for it.
    assert promote("answer", "p", "--hook", "gate", "--yes").code == 0
    assert promote.phase("p") == "offline"


def test_an_address_is_posted_to(promote):
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200 if self.path == "/yes?x=1" else 500)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        for path, phase in (("/no", "proposed"), ("/yes?x=1", "offline")):
            name = "p" + str(len(asked))
            hook = f'  hooks:\n    - {{point: confirm-rollout, name: gate, http: "http://127.0.0.1:{server.server_port}{path}"}}'
            assert promote.start(name, FIXED, promote.policy("", hook)).code == 0
            assert promote.phase(name) == phase
            assert (asked[-1]["name"], asked[-1]["hook"], asked[-1]["point"]) == (name, "gate", "confirm-rollout")
            promote("abort", name)
    finally:
        server.shutdown()


def test_candidates_of_a_lane_take_turns(promote):
    promote.start("first")
    assert "proposed" == (promote.start("second", INFER), promote.phase("second"))[1]
    outcome = promote("abort", "first")
    assert "second was next in its lane and has started" in outcome.out
    assert promote.phase("second") == "offline"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["advance", "nobody"], 2, "there is no promotion 'nobody'"),
        (["history", "nobody"], 2, "there is no promotion 'nobody'"),
        (["start", "p", "--lane", "chat", "--policy", "examples/contract.yaml", "--candidate", FIXED], 2, "PromotionPolicy"),
        (["start", "p", "--lane", "chat", "--policy", "policies/promotion.yaml", "--candidate", "dead"], 2, "triple"),
        (["answer", "p", "--hook", "gate"], 2, "--yes or --no"),
        (["advance"], 2, "PROMOTION"),
        (["promote"], 2, "unknown"),
    ],
)
def test_what_is_asked_wrongly_is_told(promote, arguments, code, says):
    outcome = promote(*arguments)
    assert (outcome.code, says in outcome.err) == (code, True), outcome.err


def test_without_a_register_nothing_is_made(kcc, tmp_path):
    outcome = kcc("promote", "status", "--register", tmp_path / "none.db")
    assert outcome.code in (2, 4)
    assert "kcc register init" in outcome.err
    assert not (tmp_path / "none.db").exists()
