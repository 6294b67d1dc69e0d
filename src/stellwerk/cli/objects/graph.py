"""The tree of an object and its dependents: drawn, shortened, and as JSON. Pure.

A tree that is cut at a depth shows how many objects it leaves out; a compact one counts the ready objects, because
users look for the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from stellwerk.cli.objects import object_summary
from stellwerk.cli.objects.health import ObjectHealth
from stellwerk.cli.shell.text import Style, escaped
from stellwerk.kube.types.identifiers import ObjectRef
from stellwerk.kube.types.model import JsonObject

_GAP = "   "
_LONGEST = 160


@dataclass(frozen=True, slots=True)
class Node:
    """An object, its health, and its dependents."""

    ref: ObjectRef
    health: ObjectHealth
    children: tuple[Node, ...] = ()
    relation: str = ""
    """The relation of its parent to it: `manages` or `owns`."""
    place: str = ""
    """Where it is, if in another cluster than the objects above it."""
    left_out: int = 0
    """How many objects below are not shown."""
    rest: tuple[tuple[str, int], ...] = ()
    """Ready objects that are only counted, by kind."""

    @property
    def size(self) -> int:
        """The number of objects in this tree, with those that are not shown."""
        return 1 + self.left_out + sum(child.size for child in self.children) + sum(count for _, count in self.rest)

    @property
    def is_well(self) -> bool:
        """Whether it is ready with all below."""
        return self.health.is_well and all(child.is_well for child in self.children)


def cut(node: Node, depth: int) -> Node:
    """The tree with so many levels below its top."""
    if depth > 0:
        return replace(node, children=tuple(cut(child, depth - 1) for child in node.children))
    return replace(node, children=(), left_out=sum(child.size for child in node.children))


def compact(node: Node) -> Node:
    """The tree with its ready objects as counts."""
    shown = [compact(child) for child in node.children if not child.is_well]
    counts = Counter(name for child in node.children if child.is_well for name in _kinds(child))
    return replace(node, children=tuple(shown), rest=tuple(sorted(counts.items())))


def _kinds(node: Node) -> Iterator[str]:
    yield node.ref.gvk.kind
    for child in node.children:
        yield from _kinds(child)


# ---- for people


def drawn(top: Node, style: Style) -> list[str]:
    """The lines. States and messages are aligned in one column."""
    rows: list[tuple[str, Node | str]] = [("", top), *_rows(top, "")]
    width = max(len(stem) + len(_name(node)) for stem, node in rows if isinstance(node, Node))
    return [_line(stem, node, width, style) for stem, node in rows]


def _rows(node: Node, indent: str) -> Iterator[tuple[str, Node | str]]:
    below: list[Node | str] = [*node.children, *_remarks(node)]
    for position, child in enumerate(below):
        is_last = position == len(below) - 1
        yield f"{indent}{'└─' if is_last else '├─'} ", child
        if isinstance(child, Node):
            yield from _rows(child, indent + ("   " if is_last else "│  "))


def _remarks(node: Node) -> Iterator[str]:
    if node.rest:
        yield "✔ ready: " + ", ".join(f"{count} {kind}" for kind, count in node.rest)
    if node.left_out:
        yield f"... {node.left_out} below"


def _name(node: Node) -> str:
    return f"x {_shown(node)}"


def _shown(node: Node) -> str:
    return escaped(f"{node.ref} ({node.place})" if node.place else str(node.ref))


def _line(stem: str, node: Node | str, width: int, style: Style) -> str:
    if isinstance(node, str):
        return style.drawn(stem + node)
    symbol, tone, _ = object_summary.in_words(node.health)
    state = _state(node.health)
    padding = " " * (width - len(stem) - len(_name(node))) + _GAP if state else ""
    mark = style.painted(style.drawn(symbol), tone)
    return f"{style.drawn(stem)}{mark} {_shown(node)}{padding}{state}"


def _state(seen: ObjectHealth) -> str:
    """State, reason and message, unless the object is well."""
    if seen.is_well:
        return ""
    words = " ".join(dict.fromkeys(filter(None, (seen.state, seen.reason))))
    text = escaped(": ".join(filter(None, (words, seen.message))))
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


# ---- for programs


def as_json(top: Node) -> JsonObject:
    """Nodes and edges; an object with two parents is one node."""
    nodes: dict[str, JsonObject] = {}
    edges: list[JsonObject] = []
    for parent, node in _pairs(top):
        nodes.setdefault(_id(node.ref), _node_json(node))
        if parent is not None:
            edges.append({"from": _id(parent.ref), "to": _id(node.ref), "type": node.relation})
    return {"nodes": [*nodes.values()], "edges": [*edges]}


def _pairs(node: Node, parent: Node | None = None) -> Iterator[tuple[Node | None, Node]]:
    yield parent, node
    for child in node.children:
        yield from _pairs(child, node)


def _id(ref: ObjectRef) -> str:
    group = f".{ref.gvk.group}" if ref.gvk.group else ""
    return f"{ref.gvk.kind}{group}/{ref.key}"


def _node_json(node: Node) -> JsonObject:
    return {
        "id": _id(node.ref),
        **object_summary.ref_json(node.ref),
        "ready": node.health.ready,
        "state": node.health.state,
        "reason": node.health.reason,
        "message": node.health.message,
        "place": node.place,
        "below": node.left_out + sum(count for _, count in node.rest),
    }
