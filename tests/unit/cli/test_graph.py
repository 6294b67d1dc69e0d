"""Trees of objects: drawn, cut, shortened, and told to programs."""

from __future__ import annotations

from textwrap import dedent

from stellwerk.cli.objects import graph
from stellwerk.cli.objects.graph import Node
from stellwerk.cli.objects.health import ObjectHealth
from stellwerk.cli.shell.text import Style
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef

READY = ObjectHealth("True", "Ready", "Ready")


def node(kind: str, name: str, *children: Node, seen: ObjectHealth = READY, relation: str = "manages") -> Node:
    ref = ObjectRef(GroupVersionKind("", "v1", kind), ObjectKey("infra", name))
    return Node(ref, seen, children, relation)


POD = node("Pod", "ingress-6d4-x", seen=ObjectHealth("False", "Pending", message="image not found"), relation="owns")
SET = node(
    "ReplicaSet", "ingress-6d4", POD, seen=ObjectHealth("False", "InProgress", message="0 of 1"), relation="owns"
)
TOP = node(
    "Component",
    "ingress",
    node("ConfigMap", "one"),
    node("Deployment", "ingress", SET, seen=ObjectHealth("False", "Failed", "Deadline", "it took too long")),
    node("Component", "inner", node("ConfigMap", "two"), seen=ObjectHealth("-", "Suspended", "change freeze")),
    node("Service", "ingress"),
    seen=ObjectHealth("Unknown", "Processing", "Processing", "1 of 4 not ready"),
    relation="",
)


def look(golden: str) -> list[str]:
    return dedent(golden).strip("\n").splitlines()


def test_a_tree_shows_symbols_and_what_is_not_ready_says() -> None:
    assert graph.drawn(TOP, Style()) == look(
        """
        ◌ Component infra/ingress              Processing: 1 of 4 not ready
        ├─ ✔ ConfigMap infra/one
        ├─ ✗ Deployment infra/ingress          Failed Deadline: it took too long
        │  └─ ◌ ReplicaSet infra/ingress-6d4   InProgress: 0 of 1
        │     └─ ✗ Pod infra/ingress-6d4-x     Pending: image not found
        ├─ ⏸ Component infra/inner             Suspended change freeze
        │  └─ ✔ ConfigMap infra/two
        └─ ✔ Service infra/ingress
        """
    )


def test_a_tree_without_symbols_is_ascii() -> None:
    for line in graph.drawn(TOP, Style(symbols=False)):
        assert line.isascii()


def test_a_compact_tree_tells_what_is_ready_as_counts() -> None:
    assert graph.drawn(graph.compact(TOP), Style())[-4:] == look(
        """
        │     └─ ✗ Pod infra/ingress-6d4-x     Pending: image not found
        ├─ ⏸ Component infra/inner             Suspended change freeze
        │  └─ ✔ ready: 1 ConfigMap
        └─ ✔ ready: 1 ConfigMap, 1 Service
        """
    )


def test_a_tree_that_is_cut_says_how_much_it_leaves_out() -> None:
    assert graph.drawn(graph.cut(TOP, 0), Style())[1:] == ["└─ ... 7 below"]
    assert [line.strip() for line in graph.drawn(graph.cut(TOP, 1), Style()) if "below" in line] == [
        "│  └─ ... 2 below",
        "│  └─ ... 1 below",
    ]
    assert graph.cut(TOP, 9) == TOP


def test_names_cannot_steer_the_terminal() -> None:
    assert graph.drawn(node("Pod", "a\x1b[2J"), Style()) == ["✔ Pod infra/a\\x1b[2J"]


def test_programs_get_nodes_and_edges_each_object_once() -> None:
    shared = node("ConfigMap", "one")
    told = graph.as_json(node("Component", "top", shared, node("Component", "inner", shared), relation=""))
    nodes, edges = told["nodes"], told["edges"]
    assert isinstance(nodes, list)
    assert isinstance(edges, list)
    assert [one["id"] for one in nodes if isinstance(one, dict)] == [
        "Component/infra/top",
        "ConfigMap/infra/one",
        "Component/infra/inner",
    ]
    assert edges == [
        {"from": "Component/infra/top", "to": "ConfigMap/infra/one", "type": "manages"},
        {"from": "Component/infra/top", "to": "Component/infra/inner", "type": "manages"},
        {"from": "Component/infra/inner", "to": "ConfigMap/infra/one", "type": "manages"},
    ]
