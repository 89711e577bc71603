"""kcc register blame, and evidence that is measured for two contracts, on both backends."""

import json

import pytest

OTHER = """
apiVersion: kcc/v1
kind: KernelContract
metadata: {name: other, version: 1.0.0}
spec:
  slices: [{name: long-context, where: "prompt_tokens >= 4096"}, {name: short, where: "prompt_tokens < 64"}]
  numerical:
    - {id: X-1, metric: p99_kl, atMost: 0.3, slices: [long-context, all], level: L3}
    - {id: X-2, metric: mean_tv, atMost: 0.9, exceedance: 10%, window: request, slices: [all], level: L1}
"""
POLICY = """
apiVersion: kcc/v1
kind: PromotionPolicy
metadata: {name: p, version: 1.0.0}
spec: {offline: {}, full: {}}
"""


class Judged:
    """One register; every run is a minute after the one before."""

    def __init__(self, kcc, uri, folder):
        self.kcc, self.uri, self.folder = kcc, uri, folder
        self.minute = 0
        (folder / "other.yaml").write_text(OTHER)
        (folder / "policy.yaml").write_text(POLICY)

    def flags(self):
        self.minute += 1
        return ["--register", self.uri, "--actor", "ann", "--time", f"2026-11-18T08:{self.minute:02}:00Z"]

    def run(self, build, contract="examples/contract.yaml", *more):
        done = self.kcc("run", contract, "examples/traces/train", f"examples/traces/{build}", "--model", "tiny-1",
                        *more, *self.flags())  # fmt: skip
        assert "recorded as evaluation" in done.out, done.err
        listed = self.kcc("register", "list", "evaluations", "--last", "1", "--json", "--register", self.uri)
        return listed.json["entries"][0]["event"]["body"]

    def start(self, candidate, incumbent):
        done = self.kcc("promote", "start", "p-1", "--lane", "chat", "--policy", self.folder / "policy.yaml",
                        "--candidate", candidate, "--incumbent", incumbent, *self.flags())  # fmt: skip
        assert done.code == 0, done.err

    def blame(self, name, *more):
        return self.kcc("register", "blame", name, "--register", self.uri, *more)

    def summary(self, body):
        path = self.folder / "s.kccs"
        path.unlink(missing_ok=True)
        assert self.kcc("register", "blob", body["summary"], "-o", path, "--register", self.uri).code == 0
        return path


@pytest.fixture
def judged(kcc, uri, tmp_path):
    return Judged(kcc, uri, tmp_path)


def test_the_build_that_breaks_a_clause_is_named_with_the_table(judged):
    good = judged.run("fixed")["triple"]
    bad = judged.run("infer")["triple"]
    judged.start(bad, good)
    judged.run("infer")
    done = judged.blame("p-1", "--json")
    assert done.code == 0, done.err
    told = done.json
    assert (told["kccRegister"], told["cause"]) == (1, "kernel")
    assert [row["new"]["verdict"] for row in told["table"]] == ["violated", "satisfied"]
    assert [(row["clause"], row["slice"]) for row in told["findings"]] == [("N-1", "long-context"), ("S-1", "long-context")]
    text = judged.blame("p-1")
    assert text.code == 0
    assert "the kernel build regressed" in text.out
    assert "violated: N-1 on long-context, S-1 on long-context" in text.out


def test_the_same_build_is_not_blamed_without_evidence_of_the_previous_one(judged):
    good = judged.run("fixed")
    bad = judged.run("infer")
    judged.start(bad["triple"], good["triple"])
    judged.run("infer")
    removed = judged.kcc("register", "gc", "--redact", good["summary"], "--reason", "a name in it", *judged.flags())
    assert removed.code == 0, removed.err
    done = judged.blame("p-1")
    assert done.code == 3
    assert "no longer stored" in done.out
    assert "would tell: kcc run CONTRACT" in done.out


def test_what_a_promotion_compares_is_measured_for_both_contracts(judged, kcc):
    old = judged.run("fixed")
    new = judged.run("fixed", judged.folder / "other.yaml")
    alone = kcc("judge", judged.folder / "other.yaml", judged.summary(old))
    assert "was measured without" in alone.out, "before there is a promotion, one contract is measured"
    judged.start(new["triple"], old["triple"])
    for build, contract in (("infer", judged.folder / "other.yaml"), ("infer", "examples/contract.yaml")):
        body = judged.run(build, contract)
        path = judged.summary(body)
        for under in (judged.folder / "other.yaml", "examples/contract.yaml"):
            stored = kcc("judge", under, path, "--json").json
            measured = kcc("run", under, "examples/traces/train", f"examples/traces/{build}", "--json").json
            assert stored["verdict"] == measured["verdict"]
            verdicts = [
                [(clause["id"], row["slice"], row["verdict"]) for clause in of["clauses"] for row in clause["slices"]]
                for of in (stored, measured)
            ]
            assert verdicts[0] == verdicts[1]


def test_what_is_measured_besides_changes_neither_verdict_nor_report(judged, kcc, tmp_path):
    reports = []
    for more in ((), ("--also", judged.folder / "other.yaml", "--also", "contracts/fp8-serving.yaml")):
        folder = tmp_path / f"report{len(reports)}"
        done = kcc("run", "examples/contract.yaml", "examples/traces/train", "examples/traces/infer", "--report", folder, *more)
        assert done.code == 1, done.err
        reports.append(((folder / "report.json").read_bytes(), done.out.replace(str(folder), "")))
    assert reports[0] == reports[1]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["blame"], 2, "NAME is required"),
        (["blame", "nobody"], 2, "neither an incident nor a promotion 'nobody'"),
        (["blame", "incident:p-1"], 2, "neither an incident nor a promotion"),
        (["blame", "I-0"], 2, "names neither a promotion nor a triple"),
    ],
)
def test_what_is_asked_wrongly(judged, words, code, says):
    added = judged.kcc("register", "add", "incident", "I-0", "--what", "it is slow", *judged.flags())
    assert added.code == 0, added.err
    done = judged.kcc("register", *words, "--register", judged.uri)
    assert done.code == code
    assert says in done.err


def test_an_incident_names_only_evaluations_that_are_there(judged):
    done = judged.kcc("register", "add", "incident", "I-1", "--what", "w", "--evaluation", "77", *judged.flags())
    assert done.code == 2
    assert "evaluation 77" in done.err


def test_owners_change_the_digest_only_where_they_are_named(kcc, tmp_path):
    text = OTHER
    plain, owned = tmp_path / "plain.yaml", tmp_path / "owned.yaml"
    plain.write_text(text)
    owned.write_text(text + "  owners: {X-1: ada, precision: quant}\n")
    diff = kcc("diff", plain, owned)
    assert "owners.X-1 set to ada" in diff.out
    assert "looser" not in diff.out.replace("nothing is looser", "")
    assert json.loads(kcc("explain", owned, "--json").out)["clauses"][0]["words"]
    assert "ada" in kcc("explain", owned, "X-1").out
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(text + "  owners: {precison: quant}\n")
    done = kcc("check", wrong)
    assert done.code == 2
    assert "did you mean 'precision'?" in done.out + done.err
