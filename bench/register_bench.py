#!/usr/bin/env python3
"""What a register of a million events costs: import, the last events, the promotions, verify.

    bench/register_bench.py [--events N] [--postgres] [--assert]

CPU time of kcc itself, by getrusage of the child; the server's own is not in it. A file is imported from an
export that this script writes; the server's tables are filled by COPY, since a million round trips would measure
the machine. verify checks every digest before a time is reported. --assert fails
where reading the last 50 events or the promotions takes more than 50 ms, or verify more than 20 µs an event.
"""

import argparse
import csv
import hashlib
import json
import os
import pathlib
import resource
import shutil
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
KCC = os.environ.get("KCC_BINARY", ROOT / "build/kcc")


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def bodies(count):
    contract, triple = digest(b"{}"), digest(b"made up")
    yield "model.added", {"model": "m"}
    yield "kernel.added", {"build": {"engine": "e"}, "kernel": "train"}
    yield "kernel.added", {"build": {"engine": "e"}, "kernel": "infer"}
    yield "contract.added", {"contract": contract, "name": "c"}
    yield "triple.added", {"contract": contract, "infer": "infer", "model": "m", "train": "train", "triple": triple}
    clauses = [{"id": f"N-{i}", "level": "L2", "metric": "mean_kl", "verdict": "satisfied"} for i in range(4)]
    for number in range(count - 5):
        if number % 10 < 3:
            yield "promotion.changed", {"cause": "satisfied", "from": "shadow", "promotion": f"p{number % 20}",
                                        "state": {"step": number}, "to": "canary", "triple": triple}  # fmt: skip
        else:
            yield "evaluation.recorded", {"clauses": clauses, "evidence": [], "health": 0.5, "stage": "canary",
                                          "triple": triple, "verdict": "satisfied"}  # fmt: skip


def write_export(directory, count):
    (directory / "blobs").mkdir(parents=True)
    (directory / "blobs" / digest(b"{}")[7:]).write_bytes(b"{}")
    head = "sha256:" + "0" * 64
    with open(directory / "events.jsonl", "w") as lines:
        for sequence, (kind, body) in enumerate(bodies(count), 1):
            text = json.dumps(body, separators=(",", ":"), sort_keys=True)
            event = f'["kcc-register-event-1","{head}",{sequence},{sequence},"bench","{kind}",{text}]'
            head = digest(event.encode())
            lines.write(f'{{"sequence":{sequence},"time":{sequence},"actor":"bench","kind":"{kind}","body":{text},'
                        f'"digest":"{head}"}}\n')  # fmt: skip
    (directory / "register.json").write_text(json.dumps({"format": 1, "head": f"{count}:{head}"}))
    return f"{count}:{head}"


def copy_export(export, uri):
    """The export into the tables of a server, with the table of entries computed here."""
    entries = {}
    with open(export / "events.csv", "w") as rows:
        writer = csv.writer(rows)
        for line in open(export / "events.jsonl"):
            event = json.loads(line)
            body, sequence = event["body"], event["sequence"]
            text = json.dumps(body, separators=(",", ":"), sort_keys=True)
            writer.writerow([sequence, event["time"], event["actor"], event["kind"], text, event["digest"]])
            name = event["kind"].split(".")[0]
            key = (name + "s", str(body[name]) if name in body and name != "evaluation" else str(sequence))
            subject = body.get("triple" if name in ("evaluation", "promotion") else "contract", "") \
                if name in ("evaluation", "promotion", "triple") else ""  # fmt: skip
            entries[key] = (*key, subject, entries[key][3] if key in entries else sequence, sequence)
    with open(export / "entries.csv", "w") as rows:
        # A text that is empty is quoted, or COPY takes it for NULL.
        csv.writer(rows, quoting=csv.QUOTE_NONNUMERIC).writerows(entries.values())
    blob = f"INSERT INTO kcc_blob VALUES ('{digest(b'{}')}', '{{}}')"
    for command in (f"\\copy kcc_event from '{export}/events.csv' csv", f"\\copy kcc_entry from '{export}/entries.csv' csv",
                    blob, "VACUUM ANALYZE"):  # fmt: skip
        subprocess.run(["psql", "-q", "-v", "ON_ERROR_STOP=1", uri, "-c", command], check=True)


def run(*words):
    """-> (CPU seconds, wall seconds, what it printed)."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    done = subprocess.run([KCC, "register", *words], capture_output=True, text=True, check=True)
    wall = time.monotonic() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall, done.stdout


def measure(uri, export, head, events):
    run("init", "--register", uri)
    if uri.startswith("postgresql:"):
        copy_export(export, uri)
    else:
        cpu, wall, _ = run("import", export, "--register", uri)
        print(f"  import   {cpu * 1e6 / events:8.2f} CPU-µs an event, {wall:.1f} s")
    reads = {"log --last 50": ["log", "--last", "50"], "list promotions": ["list", "promotions"], "head": ["head"]}
    worst = 0
    for name, words in reads.items():
        times = [run(*words, "--register", uri)[0] for _ in range(5)]
        worst = max(worst, sorted(times)[2])
        print(f"  {name:16} {sorted(times)[2] * 1e3:8.1f} CPU-ms")
    cpu, wall, out = run("verify", "--json", "--head", head, "--register", uri)
    check = json.loads(out)
    assert check["ok"] and check["events"] == events and check["head"] == head
    print(f"  verify   {cpu * 1e6 / events:8.2f} CPU-µs an event, {wall:.1f} s")
    return worst, cpu / events


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--assert", dest="check", action="store_true")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kcc-bench-", dir="/tmp"))
    folder.chmod(0o755)
    server = None
    try:
        head = write_export(folder / "export", options.events)
        uri = str(folder / "register.db")
        if options.postgres:
            server = subprocess.Popen([ROOT / "tests/register/postgres.sh", folder / "server"], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)  # fmt: skip
            uri = server.stdout.readline().strip()
        print(f"{'PostgreSQL' if options.postgres else 'SQLite'}, {options.events} events")
        read, verify = measure(uri, folder / "export", head, options.events)
        if options.check:
            assert read <= 0.050, f"a read takes {read * 1e3:.1f} CPU-ms, more than 50"
            assert verify <= 20e-6, f"verify takes {verify * 1e6:.1f} CPU-µs an event, more than 20"
    finally:
        if server:
            server.stdin.close()
            server.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
