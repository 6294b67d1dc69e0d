"""A process that speaks the renderer's frames and does what a request's values tell it: the double of a process.

The first line is put before it by `given.py`. It imports nothing but the standard library, because it runs without an
environment.
"""

import base64
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Any

IN, OUT = os.fdopen(0, "rb", closefd=False), os.fdopen(1, "wb", closefd=False)
FOLDER = os.path.dirname(os.path.abspath(__file__))
served = 0


def read() -> dict[str, Any]:
    head = IN.read(4)
    if len(head) < 4:
        sys.exit(0)
    found: dict[str, Any] = json.loads(IN.read(int.from_bytes(head, "big")))
    return found


def send(message: dict[str, Any]) -> None:
    body = json.dumps(message).encode()
    OUT.write(len(body).to_bytes(4, "big") + body)
    OUT.flush()


def about() -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "served": served,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "files": sorted(int(name) for name in os.listdir("/proc/self/fd"))[:-1],
        "session": os.getsid(0) == os.getpid(),
        "limits": [resource.getrlimit(one)[0] for one in (resource.RLIMIT_DATA, resource.RLIMIT_CORE)],
    }


def ask(request: dict[str, Any], call: dict[str, Any]) -> dict[str, Any]:
    send({"id": request["id"], "call": call})
    return read()


def judge(claim: dict[str, Any]) -> dict[str, Any]:
    if claim["text"] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if claim["text"] == "result":
        return {"result": {"generator": "helm", "objects": [], "origins": [], "uses": []}}
    if claim["text"] == "?":
        return {"error": {"kind": "InvalidExpression", "message": "no such word", "line": 1, "column": 2}}
    return {"verdict": claim["objects"]["self"]["answer"]}


def render(request: dict[str, Any]) -> dict[str, Any]:
    if "claim" in request:
        return judge(request["claim"])
    values = request["values"]
    what = values.get("do", "")
    if what == "spin":
        while True:
            pass
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "die before an answer":
        send({"id": request["id"], "call": values["call"]})
        select.select([IN], [], [])
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "shout":
        sys.stderr.write(values["text"] + "x" * 1_000_000)
        sys.stderr.flush()
        os._exit(2)
    if what == "garbage":
        OUT.write(base64.b64decode(values["bytes"]))
        OUT.flush()
        time.sleep(60)
    if what == "eat":
        try:
            hoard = [bytearray(16 << 20) for _ in range(1_000)]
        except MemoryError:
            os._exit(len("memory"))
        os._exit(len(hoard))
    if what == "late":
        late = {"generator": "helm", "objects": [], "origins": [], "uses": [], "kind": "x", "message": "y"}
        send({"id": 99, values["kind"]: late})
        return {"error": {"kind": "Internal", "message": "too late"}}
    if what == "weigh":
        weights = {path: len(content) for path, content in request["files"].items()}
        return {"result": {"generator": "helm", "objects": [weights], "origins": ["a.yaml"], "uses": []}}
    if what == "multiply":
        objects = [values["object"]] * values["times"]
        return {"result": {"generator": "helm", "objects": objects, "origins": [""] * len(objects), "uses": []}}
    if what == "fail":
        return {"error": values["error"]}
    answers = [ask(request, call) for call in values.get("calls", [])]
    failed = [answer["error"] for answer in answers if answer.get("error")]
    if failed:
        return {"error": {"kind": "LookupFailed", "message": failed[0], "file": "a.yaml", "line": 7}}
    rest = {key: request[key] for key in request if key != "files"}
    body = {"about": about(), "answers": answers, "request": rest, "files": request["files"]}
    chart = {"name": "c", "version": "1", "appVersion": "2"}
    made = {"generator": "kustomize", "objects": [body], "origins": ["a.yaml"], "chart": chart}
    return {"result": {**made, "uses": values.get("uses", [])}}


if os.path.exists(os.path.join(FOLDER, "die-first")):
    os.unlink(os.path.join(FOLDER, "die-first"))
    sys.exit(1)
while True:
    request = read()
    served += 1
    send({"id": request["id"], **render(request)})
