"""What a log ends with is told in a line, and only damaged data is called damaged."""

from __future__ import annotations

import json

import pytest

from stellwerk.local.last_words import complaint, names_damage

STACK = "go.etcd.io/bbolt.Open\n\tgo.etcd.io/bbolt@v1.4.3/db.go:322\ngo.etcd.io/etcd/server/v3/storage/backend.New"
GOROUTINE = """
goroutine 1 [running]:
go.etcd.io/raft/v3.newRaft(0xa732b162320)
\tgo.etcd.io/raft/v3@v3.6.0/raft.go:439 +0xbd4
go.etcd.io/etcd/server/v3/storage/backend.New(...)
created by go.etcd.io/etcd/server/v3/storage.OpenBackend in goroutine 1
"""


def logged(level: str, message: str, **more: str) -> str:
    return json.dumps({"level": level, "caller": "wal/util.go:90", "msg": message, **more, "stacktrace": STACK}) + "\n"


NOISE = logged("warn", "ignored file in WAL directory", path="0.wal.broken")
DAMAGED = [
    (
        logged("panic", "failed to open database", path="data/member/snap/db", error="invalid database")
        + "panic: failed to open database\n"
        + GOROUTINE,
        "failed to open database: data/member/snap/db: invalid database",
    ),
    (
        logged("error", "bootstrap failed", error="proto: illegal wireType 7")
        + logged("fatal", "discovery failed", error="proto: illegal wireType 7"),
        "discovery failed: proto: illegal wireType 7",
    ),
    (NOISE + "panic: cannot use none as id\n" + GOROUTINE, "panic: cannot use none as id"),
    (logged("fatal", "failed to read WAL", error="wal: crc mismatch"), "failed to read WAL: wal: crc mismatch"),
    (
        "panic: freepages: failed to get all reachable pages (page 3: multiple references)\n" + GOROUTINE,
        "panic: freepages: failed to get all reachable pages (page 3: multiple references)",
    ),
    (
        "panic: assertion failed: Page expected to be: 7, but self identifies as 0\n" + GOROUTINE,
        "panic: assertion failed: Page expected to be: 7, but self identifies as 0",
    ),
    (
        logged("error", "slow", took="1s")
        + "unexpected fault address 0x7f2b10009000\nfatal error: fault\n"
        + "[signal SIGBUS: bus error code=0x2 addr=0x7f2b10009000 pc=0x9d3b2a]\n"
        + GOROUTINE,
        "unexpected fault address 0x7f2b10009000",
    ),
    (
        "[signal SIGBUS: bus error code=0x2 addr=0x7f pc=0x9d]\n",
        "[signal SIGBUS: bus error code=0x2 addr=0x7f pc=0x9d]",
    ),
    (
        logged("panic", "failed to open database", path="/home/timeout/data/member/snap/db", error="invalid database"),
        "failed to open database: /home/timeout/data/member/snap/db: invalid database",
    ),
]
INTACT = [
    (
        logged(
            "fatal",
            "conflicting environment variable is shadowed by corresponding command-line flag",
            **{"environment-variable": "ETCD_DATA_DIR"},
        ),
        "conflicting environment variable is shadowed by corresponding command-line flag: ETCD_DATA_DIR",
    ),
    (
        NOISE + logged("warn", "failed to verify flags", error="invalid value"),
        "ignored file in WAL directory: 0.wal.broken\nfailed to verify flags: invalid value",
    ),
    (
        logged("panic", "failed to open database", path="data/member/snap/db", error="permission denied"),
        "failed to open database: data/member/snap/db: permission denied",
    ),
    (
        logged("panic", "failed to open database", path="data/member/snap/db", error="timeout"),
        "failed to open database: data/member/snap/db: timeout",
    ),
    (
        logged("fatal", "discovery failed", error="open data/member/wal/0.wal: interrupted system call"),
        "discovery failed: open data/member/wal/0.wal: interrupted system call",
    ),
    (
        logged("fatal", "discovery failed", error='cannot lock "/my wal data/db"'),
        'discovery failed: cannot lock "/my wal data/db"',
    ),
    *(
        (
            logged("fatal", "failed to open database", error=f"read data/member/wal/0.wal: {refusal}"),
            f"failed to open database: read data/member/wal/0.wal: {refusal}",
        )
        for refusal in ("input/output error", "not a directory", "no such file or directory")
    ),
    ("flag provided but not defined: -nope\nUsage:\n\n  etcd [flags]\n", None),
]


@pytest.mark.parametrize(("log", "words"), DAMAGED)
def test_a_damaged_file_is_named_without_json_and_stacks(log: str, words: str) -> None:
    assert complaint(log) == words
    assert names_damage(words)


@pytest.mark.parametrize(("log", "words"), INTACT)
def test_an_end_for_another_cause_is_not_called_damage(log: str, words: str | None) -> None:
    said = complaint(log)
    assert words in (None, said)
    assert not names_damage(said)


def test_lines_that_are_no_json_stay_as_they_are() -> None:
    log = 'I1126 started\nE1126 20:33:14 1 run.go:72] "command failed" err="bind: denied"\n' + GOROUTINE
    assert complaint(log, 1) == 'E1126 20:33:14 1 run.go:72] "command failed" err="bind: denied"'
