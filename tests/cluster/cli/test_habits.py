"""What kubectl's users type means the same here."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from stellwerk.kube.types.identifiers import Resource
from stellwerk.local.cluster import LocalCluster
from tests.cluster.cli.conftest import BTP, Given, Started, Stellwerk, interrupted, parsed
from tests.kubectl import kubectl

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", True)
SECRETS = Resource("", "v1", "Secret", "secrets", True)


@pytest.fixture
def shelf(given: Given, place: str) -> str:
    """Three ConfigMaps and a Secret with labels, in a namespace of their own."""
    for name, size, tier in (("b", "10", "front"), ("a", "9", "back"), ("c", "1", "front")):
        given.put(CONFIG_MAPS, place, name, metadata={"labels": {"tier": tier, "shelf": "yes"}}, data={"size": size})
    given.put(SECRETS, place, "s", metadata={"labels": {"tier": "front", "shelf": "yes"}})
    return place


def names(text: str) -> list[str]:
    return [line.rpartition("/")[2] for line in text.splitlines()]


def test_a_label_selector_lists_what_kubectl_lists(
    stellwerk: Stellwerk, shelf: str, command_line_cluster: LocalCluster
) -> None:
    for selector in ("tier=front", "tier!=front,shelf", "tier in (back,front),shelf=yes"):
        theirs = kubectl(command_line_cluster.kubeconfig, "get", "cm", "-n", shelf, "-l", selector, "-o", "name")
        ours = stellwerk("get", "cm", "-n", shelf, "-l", selector, "-o", "name")
        assert names(ours.stdout) == names(theirs), ours
    none = stellwerk("get", "cm", "-n", shelf, "-l", "tier=none")
    assert (none.returncode, none.stdout) == (0, "")
    assert none.stderr == f"Nothing matches tier=none in namespace {shelf}.\n"


def test_a_field_selector_lists_what_kubectl_lists(stellwerk: Stellwerk, shelf: str) -> None:
    ours = stellwerk("get", "cm", "-n", shelf, "--field-selector", "metadata.name=a", "-o", "name")
    assert names(ours.stdout) == ["a"]
    wrong = stellwerk("get", "cm", "-n", shelf, "--field-selector", "nothing=a")
    assert wrong.returncode == 1
    assert "nothing" in wrong.stderr


@pytest.mark.parametrize("path", [".metadata.name", "{.data.size}", "metadata.labels.tier"])
def test_sort_by_orders_as_kubectl_does(
    stellwerk: Stellwerk, shelf: str, command_line_cluster: LocalCluster, path: str
) -> None:
    where = ["-n", shelf, "-l", "shelf", "--sort-by", path, "-o", "name"]
    ours = stellwerk("get", "cm", *where)
    assert names(ours.stdout) == names(kubectl(command_line_cluster.kubeconfig, "get", "cm", *where)), ours


def test_show_labels_adds_a_column(stellwerk: Stellwerk, shelf: str) -> None:
    lines = stellwerk("get", "cm", "a", "-n", shelf, "--show-labels").stdout.splitlines()
    assert lines[0].split()[-1] == "LABELS"
    assert lines[1].split()[-1] == "shelf=yes,tier=back"


@pytest.mark.parametrize(
    "spec",
    [
        "NAME:.metadata.name,SIZE:.data.size",
        "N:metadata.name,NONE:.spec.nothing",
        "N:{.metadata.name},T:.metadata.labels.tier",
        "ALL:.metadata.name,N:.metadata.nothing[*]",
    ],
)
def test_custom_columns_print_what_kubectl_prints(
    stellwerk: Stellwerk, shelf: str, command_line_cluster: LocalCluster, spec: str
) -> None:
    where = ["-n", shelf, "-l", "shelf", "-o", f"custom-columns={spec}"]
    theirs = kubectl(command_line_cluster.kubeconfig, "get", "cm", *where)
    ours = stellwerk("get", "cm", *where)
    assert [line.split() for line in ours.stdout.splitlines()] == [line.split() for line in theirs.splitlines()], ours


def test_several_kinds_and_several_names_are_listed(stellwerk: Stellwerk, shelf: str) -> None:
    both = stellwerk("get", "cm,secrets", "-n", shelf, "-l", "shelf", "-o", "name")
    assert names(both.stdout) == ["a", "b", "c", "s"], both
    some = stellwerk("get", "cm", "c", "a", "-n", shelf, "-o", "name")
    assert names(some.stdout) == ["c", "a"]
    mixed = parsed(stellwerk("get", "cm/a", "secret/s", "-n", shelf, "-o", "json").stdout)
    assert isinstance(mixed["items"], list)
    assert len(mixed["items"]) == 2
    absent = stellwerk("get", "cm", "a", "nothing", "-n", shelf)
    assert (absent.returncode, absent.stdout) == (1, "")


def test_a_name_and_a_selector_together_are_wrong_usage(stellwerk: Stellwerk, shelf: str) -> None:
    assert stellwerk("get", "cm", "a", "-l", "tier=back", "-n", shelf).returncode == 2


@pytest.mark.parametrize("verb", ["get", "status", "why", "tree", "trace", "wait", "reconcile"])
def test_kind_and_name_may_stand_apart(stellwerk: Stellwerk, given: Given, place: str, verb: str) -> None:
    name = f"apart-{place}"
    given.operator(place, name, "ReconcileSucceeded", "Ready", "fine", ready=True)
    apart, joined = (stellwerk(verb, *words, "-n", place) for words in (["btp", name], [f"btp/{name}"]))
    assert apart.returncode == joined.returncode == 0, apart
    assert apart.stdout.splitlines()[0].split("(")[0] == joined.stdout.splitlines()[0].split("(")[0]


def test_wait_for_a_condition_returns_when_it_holds(stellwerk: Stellwerk, given: Given, place: str) -> None:
    name = f"waits-{place}"
    given.operator(place, name, "MissingSecret", "Warning", "none")
    held = stellwerk("wait", "btp", name, "--for=condition=ready=false", "-n", place, "--timeout", "20s")
    assert held.returncode == 0, held
    late = stellwerk("wait", "btp", name, "--for", "condition=Ready", "-n", place, "--timeout", "500ms")
    assert late.returncode == 4, late
    assert "is not with condition Ready after 0.5 s" in late.stderr
    assert stellwerk("wait", "btp", name, "--for=jsonpath", "-n", place).returncode == 2
    given.gone(BTP, place, name)
    assert stellwerk("wait", "btp", name, "--for=delete", "-n", place, "--timeout", "20s").returncode == 0


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ("ready", 0),
        ("condition=Ready", 0),
        ("jsonpath={.status.state}=Ready", 0),
        ("jsonpath={.status.state}=Error", 4),
        ("deleted", 4),
    ],
)
def test_a_wait_of_no_time_looks_once(stellwerk: Stellwerk, given: Given, place: str, wanted: str, code: int) -> None:
    given.operator(place, "ready", "ReconcileSucceeded", "Ready", "fine", ready=True)
    done = stellwerk("wait", "btp/ready", "--for", wanted, "-n", place, "--timeout", "0")
    assert done.returncode == code, done


def test_where_nobody_reacts_the_lease_of_the_operator_is_told(given: Given, place: str, started: Started) -> None:
    given.put(BTP, place, "cr")
    with started("reconcile", "btp/cr", "--wait", "--timeout", "50s", "-n", place) as waiting:
        assert waiting.stderr is not None
        told = next((line for line in waiting.stderr if "has not been looked at for 10 s" in line), "")
        code, _ = interrupted(waiting)
    assert told.startswith(f"  BtpOperator {place}/cr has not been looked at for 10 s; no operator seems to be running")
    assert "no operator seems to be running: no process holds the Lease" in told
    assert code == 130


def test_where_no_operator_runs_that_is_the_cause_of_a_wait_in_vain(
    stellwerk: Stellwerk, given: Given, place: str
) -> None:
    given.put(BTP, place, "cr")
    late = stellwerk("reconcile", "btp/cr", "--wait", "--timeout", "10s", "-n", place)
    assert late.returncode == 4, late
    assert "no operator seems to be running: no process holds the Lease" in late.stderr
    assert "Fix:     see whether the operator runs" in late.stderr


def test_all_of_a_kind_are_reconciled_and_a_selector_picks_some(stellwerk: Stellwerk, given: Given, place: str) -> None:
    for name in ("one", "two"):
        given.put(BTP, place, name, metadata={"labels": {"n": name}})
    both = stellwerk("reconcile", "btp", "--all", "-n", place)
    asked = [f"BtpOperator {place}/{name} is asked to reconcile" for name in ("one", "two")]
    assert (both.returncode, both.stdout.splitlines()) == (0, asked)
    some = stellwerk("reconcile", "btp", "-l", "n=two", "-n", place)
    assert some.stdout.splitlines() == asked[1:]
    assert stellwerk("reconcile", "btp/one", "--all", "-n", place).returncode == 2
    none = stellwerk("reconcile", "btp", "-l", "n=three", "-n", place)
    assert (none.returncode, none.stdout) == (1, "")
    assert "there is no BtpOperator with labels n=three in namespace" in none.stderr


def test_a_watch_prints_json_that_programs_can_read(given: Given, place: str, started: Started) -> None:
    given.put(CONFIG_MAPS, place, "watched", data={"a": "1"})
    with started("get", "cm", "watched", "-n", place, "-w", "-o", "json") as watching:
        assert watching.stdout is not None
        assert first_object(watching.stdout)["data"] == {"a": "1"}
        given.gone(CONFIG_MAPS, place, "watched")
        assert first_object(watching.stdout)["data"] == {"a": "1"}
        code, _ = interrupted(watching)
    assert code == 130


def first_object(lines: Iterator[str]) -> dict[str, object]:
    """The next JSON object of a stream."""
    text = ""
    for line in lines:
        text += line
        if line == "}\n":
            value: dict[str, object] = json.loads(text)
            return value
    raise AssertionError(f"the stream has ended: {text!r}")


def test_server_and_token_replace_what_the_kubeconfig_has(
    stellwerk: Stellwerk, command_line_cluster: LocalCluster, given: Given, place: str, tmp_path: Path
) -> None:
    given.operator(place, "cr", "MissingSecret", "Warning", "none")
    config = yaml.safe_load(command_line_cluster.kubeconfig.read_text())
    right = config["clusters"][0]["cluster"]["server"]
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    wrong = tmp_path / "kubeconfig"
    wrong.write_text(yaml.safe_dump(config))
    assert stellwerk("get", "btp/cr", "-n", place, kubeconfig=wrong).returncode == 1
    assert stellwerk("get", "btp/cr", "-n", place, "--server", right, kubeconfig=wrong).returncode == 0
    assert stellwerk("get", "btp/cr", "-n", place, "-s", f"{right}/", kubeconfig=wrong).returncode == 0
    bad = stellwerk("get", "btp/cr", "-n", place, "--server", "ftp://x", kubeconfig=wrong)
    assert bad.returncode in (1, 5)
    assert "https://" in bad.stderr
    unknown = stellwerk("get", "btp/cr", "-n", place, "--token", "canary-token")
    assert unknown.returncode == 5, "the token counts, and not the certificate of the kubeconfig"
    assert "canary-token" not in unknown.stdout + unknown.stderr


def test_as_group_acts_as_a_member(stellwerk: Stellwerk, place: str) -> None:
    plain = stellwerk("get", "cm", "-n", place, "--as", "joe")
    assert plain.returncode == 5
    member = stellwerk("get", "cm", "-n", place, "--as", "joe", "--as-group", "x", "--as-group", "system:masters")
    assert member.returncode == 0, member
    alone = stellwerk("get", "cm", "-n", place, "--as-group", "system:masters")
    assert alone.returncode == 2
    assert "--as" in alone.stderr


class _Silent(BaseHTTPRequestHandler):
    silence = threading.Event()

    def do_GET(self) -> None:
        self.silence.wait(60)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def silent_server() -> Iterator[str]:
    """A server that accepts requests and never answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Silent)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        _Silent.silence.set()
        server.shutdown()
        server.server_close()
        thread.join()


def test_request_timeout_gives_up_a_request_that_is_not_answered(stellwerk: Stellwerk, silent_server: str) -> None:
    shown = stellwerk("get", "cm", "-n", "default", "--server", silent_server, "--request-timeout", "300ms")
    assert shown.returncode == 4, shown
    assert "has not answered within 0.3 s" in shown.stderr
