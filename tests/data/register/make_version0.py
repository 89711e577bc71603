#!/usr/bin/env python3
"""Makes version0.db and version0.sql: a register of schema version 0, for the tests of migrations.

Version 0 had no table of entries and no guard against changed events. The chain is computed here a second
time, after docs/register.md "The log", so that it is checked by code that shares nothing with kcc.
"""

import hashlib
import json
import pathlib
import sqlite3

HERE = pathlib.Path(__file__).parent
CONTRACT = b'{"name":"c"}'
REPORT = b'{"report":1}'
SCHEMA = """CREATE TABLE kcc_register (version {integer} NOT NULL);
INSERT INTO kcc_register VALUES (0);
CREATE TABLE kcc_event (
  sequence {integer} PRIMARY KEY, time_ms {integer} NOT NULL, actor TEXT NOT NULL,
  kind TEXT NOT NULL, body TEXT NOT NULL, digest TEXT NOT NULL);
CREATE TABLE kcc_blob (digest TEXT{collate} PRIMARY KEY, bytes {bytes} NOT NULL);
"""


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def compact(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def events():
    triple = digest(b"made up")
    yield "model.added", {"model": "m-1"}
    yield "kernel.added", {"kernel": "train-1", "build": {"engine": "e"}}
    yield "kernel.added", {"kernel": "infer-1", "build": {}}
    yield "contract.added", {"contract": digest(CONTRACT), "name": "c"}
    yield "triple.added", {"triple": triple, "model": "m-1", "train": "train-1", "infer": "infer-1",
                           "contract": digest(CONTRACT)}  # fmt: skip
    yield "evaluation.recorded", {"triple": triple, "stage": "offline", "verdict": "satisfied", "health": 0.5,
                                  "clauses": [], "evidence": [], "report": digest(REPORT)}  # fmt: skip
    yield "promotion.changed", {"promotion": "p", "triple": triple, "from": "proposed", "to": "offline",
                                "cause": "é", "state": {"step": 1}}  # fmt: skip


def rows():
    previous = "sha256:" + "0" * 64
    for sequence, (kind, body) in enumerate(events(), 1):
        time, actor = 1700000000000 + sequence, "ann"
        text = f'["kcc-register-event-1","{previous}",{sequence},{time},"{actor}","{kind}",{compact(body)}]'
        previous = digest(text.encode())
        yield sequence, time, actor, kind, compact(body), previous


def main():
    path = HERE / "version0.db"
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path)
    database.execute("PRAGMA journal_mode=WAL")
    database.executescript(SCHEMA.format(integer="INTEGER", bytes="BLOB", collate=""))
    database.executemany("INSERT INTO kcc_event VALUES (?,?,?,?,?,?)", rows())
    database.executemany("INSERT INTO kcc_blob VALUES (?,?)", [(digest(b), b) for b in (CONTRACT, REPORT)])
    database.commit()
    database.close()
    text = SCHEMA.format(integer="BIGINT", bytes="BYTEA", collate=' COLLATE "C"')
    for sequence, time, actor, kind, body, own in rows():
        text += f"INSERT INTO kcc_event VALUES ({sequence}, {time}, '{actor}', '{kind}', '{body}', '{own}');\n"
    for blob in (CONTRACT, REPORT):
        text += f"INSERT INTO kcc_blob VALUES ('{digest(blob)}', '\\x{blob.hex()}');\n"
    (HERE / "version0.sql").write_text(text)


if __name__ == "__main__":
    main()
