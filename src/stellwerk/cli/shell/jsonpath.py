"""kubectl's JSONPath: the template language of `-o jsonpath=`.

Text is printed as it is; braces hold a path, a quoted string, or `range ... end`. A path may use `.field`, `['field']`,
`[3]`, `[-1]`, `[1:3]`, `[*]`, `..field`, `[a,b]` and filters such as `[?(@.type=="Ready")]`. The template is
parsed first, so that a mistake is reported before any output; a missing field prints as nothing, as in kubectl.

Reference: https://kubernetes.io/docs/reference/kubectl/jsonpath/
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from stellwerk.kube.types.model import JsonValue


class PathError(ValueError):
    """The template cannot be read; the message quotes the part that is wrong."""


@dataclass(frozen=True, slots=True)
class Literal:
    """Text that is printed as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Field:
    """Go into a field; `deep` looks for it at every depth (`..name`)."""

    name: str
    deep: bool = False


@dataclass(frozen=True, slots=True)
class Every:
    """All elements of a list, or all values of an object."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Elements of a list by position."""

    start: int | None
    stop: int | None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Either:
    """Several selections side by side: `[0,2]`, `['a','b']`."""

    choices: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Where:
    """The elements for which a comparison holds, or, without an operator, which have the field."""

    left: Path
    operator: str = ""
    right: Path | JsonValue = None


Step: TypeAlias = Field | Every | Slice | Either | Where


@dataclass(frozen=True, slots=True)
class Path:
    """Steps from the current element, or from the whole document (`$`)."""

    steps: tuple[Step, ...]
    from_root: bool = False


@dataclass(frozen=True, slots=True)
class Range:
    """Repeat the body for every result of the path."""

    over: Path
    body: tuple[Node, ...]


Node: TypeAlias = Literal | Path | Range

_BLOCK = re.compile(r"\{((?:[^{}'\"]|'[^']*'|\"(?:[^\"\\]|\\.)*\")*)\}")
_NAME = re.compile(r"(?:[^\s.\[\]\\'\"(){}=<>!]|\\.)+")
_FILTER = re.compile(r"^(.*?)\s*(==|!=|<=|>=|<|>)\s*(.*)$", re.DOTALL)
_SLICE = re.compile(r"^(-?\d+)?(?::(-?\d+)?)?(?::(-?\d+)?)?$")


def parse(template: str) -> tuple[Node, ...]:
    """Read a template. Braces around a single path may be left out. Raises PathError."""
    if "{" not in template:
        template = "{" + (template if template.startswith((".", "[", "$", "@")) else f".{template}") + "}"
    nodes, rest = _nodes(list(_tokens(template)), inside=False)
    assert not rest
    return nodes


def is_path(template: Sequence[Node]) -> bool:
    """Whether the template is one path, without text around it."""
    return len(template) == 1 and isinstance(template[0], Path)


def render(template: Sequence[Node], document: JsonValue) -> str:
    """The template filled from a document; several results of one path are joined by spaces."""
    return "".join(_rendered(template, document, document))


def values(template: Sequence[Node], document: JsonValue) -> list[JsonValue]:
    """What the paths of a template lead to, not joined and not printed."""
    return [value for node in template if isinstance(node, Path) for value in _found(node, document, document)]


# Reading


def _tokens(template: str) -> Iterator[tuple[bool, str]]:
    """Text and blocks in turn: (whether it is a block, what it holds)."""
    position = 0
    while (start := template.find("{", position)) >= 0:
        block = _BLOCK.match(template, start)
        if block is None:
            raise PathError(f"no closing brace for {template[start : start + 20]!r}")
        if start > position:
            yield False, template[position:start]
        yield True, block.group(1).strip()
        position = block.end()
    if position < len(template):
        yield False, template[position:]


def _nodes(tokens: list[tuple[bool, str]], inside: bool) -> tuple[tuple[Node, ...], list[tuple[bool, str]]]:
    nodes: list[Node] = []
    while tokens:
        (is_block, text), *tokens = tokens
        if is_block and text == "end":
            if not inside:
                raise PathError("{end} without {range}")
            return tuple(nodes), tokens
        if is_block and text.startswith("range "):
            body, tokens = _nodes(tokens, inside=True)
            nodes.append(Range(_path(text.removeprefix("range ").strip()), body))
        else:
            nodes.append(_block(text) if is_block else Literal(text))
    if inside:
        raise PathError("{range} without {end}")
    return tuple(nodes), []


def _block(text: str) -> Node:
    if text[:1] in ("'", '"'):
        return Literal(str(_constant(text)))
    return _path(text)


def _path(text: str) -> Path:
    from_root = text.startswith("$")
    rest = text[1:] if text[:1] in ("$", "@") else text
    if rest and rest[0] not in ".[":
        rest = f".{rest}"
    steps: list[Step] = []
    while rest:
        step, rest = _step(rest)
        if step is not None:
            steps.append(step)
    return Path(tuple(steps), from_root)


def _step(text: str) -> tuple[Step | None, str]:
    if text.startswith("["):
        inner, rest = _bracket(text)
        return _selection(inner), rest
    deep = text.startswith("..")
    after = text[2:] if deep else text.removeprefix(".")
    if after.startswith("*"):
        return Every(), after[1:]
    name = _NAME.match(after)
    if name is None:
        if text == "." or (after.startswith("[") and not deep):
            return None, after
        raise PathError(f"a field name is missing at {text[:20]!r}")
    return Field(re.sub(r"\\(.)", r"\1", name.group()), deep), after[name.end() :]


def _bracket(text: str) -> tuple[str, str]:
    depth, quote = 0, ""
    for position, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "[]":
            depth += 1 if letter == "[" else -1
            if depth == 0:
                return text[1:position].strip(), text[position + 1 :]
    raise PathError(f"no closing bracket for {text[:20]!r}")


def _selection(inner: str) -> Step:
    if inner == "*":
        return Every()
    if inner.startswith("?(") and inner.endswith(")"):
        return _where(inner[2:-1].strip())
    choices = [_choice(part.strip()) for part in inner.split(",")]
    return choices[0] if len(choices) == 1 else Either(tuple(choices))


def _choice(text: str) -> Step:
    if text[:1] in ("'", '"'):
        return Field(str(_constant(text)))
    found = _SLICE.match(text)
    if not text or found is None:
        raise PathError(f"{text!r} is no position, slice or quoted field")
    first, second, third = (int(part) if part else None for part in found.groups())
    if ":" in text:
        return Slice(first, second, third)
    assert first is not None
    return Slice(first, first + 1 or None)


def _where(text: str) -> Where:
    compared = _FILTER.match(text)
    if compared is None:
        return Where(_path(text))
    left, operator, right = compared.groups()
    return Where(_path(left), operator, _path(right) if right[:1] in "@$" else _constant(right))


def _constant(text: str) -> JsonValue:
    if text[:1] in ("'", '"') and text[-1:] == text[:1] and len(text) > 1:
        return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found.group(1), found.group(1)), text[1:-1])
    try:
        value = json.loads(text)
    except ValueError:
        raise PathError(f"{text!r} is neither a number nor a quoted text") from None
    if isinstance(value, bool | int | float | str) or value is None:
        return value
    raise PathError(f"{text!r} is neither a number nor a quoted text")


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}

# Following


def _rendered(nodes: Iterable[Node], current: JsonValue, root: JsonValue) -> Iterator[str]:
    for node in nodes:
        match node:
            case Literal():
                yield node.text
            case Path():
                yield " ".join(map(printed, _found(node, current, root)))
            case Range():
                for element in _found(node.over, current, root):
                    yield from _rendered(node.body, element, root)


def printed(value: JsonValue) -> str:
    """One value as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _found(path: Path, current: JsonValue, root: JsonValue) -> list[JsonValue]:
    values = [root if path.from_root else current]
    for step in path.steps:
        values = [result for value in values for result in _taken(step, value, root)]
    return values


def _taken(step: Step, value: JsonValue, root: JsonValue) -> Iterator[JsonValue]:
    match step:
        case Field(name, deep):
            for place in _everywhere(value) if deep else [value]:
                if isinstance(place, dict) and name in place:
                    yield place[name]
        case Every():
            yield from _children(value)
        case Slice(start, stop, step_width):
            if isinstance(value, list):
                yield from value[slice(start, stop, step_width)]
        case Either(choices):
            for choice in choices:
                yield from _taken(choice, value, root)
        case Where():
            yield from (element for element in _children(value) if _holds(step, element, root))


def _children(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []


def _everywhere(value: JsonValue) -> Iterator[JsonValue]:
    yield value
    for child in _children(value):
        yield from _everywhere(child)


def _holds(condition: Where, element: JsonValue, root: JsonValue) -> bool:
    lefts = _found(condition.left, element, root)
    if not condition.operator:
        return bool(lefts)
    right = condition.right
    rights = _found(right, element, root) if isinstance(right, Path) else [right]
    return bool(lefts and rights) and _compare(lefts[0], condition.operator, rights[0])


def _compare(left: JsonValue, operator: str, right: JsonValue) -> bool:
    if operator in ("==", "!="):
        return (left == right) == (operator == "==")
    if isinstance(left, int | float) and isinstance(right, int | float):
        return _ordered(left, operator, right)
    if isinstance(left, str) and isinstance(right, str):
        return _ordered(left, operator, right)
    return False


def _ordered(left: float | str, operator: str, right: float | str) -> bool:
    order = (left > right) - (left < right)  # type: ignore[operator]  # both are numbers or both are texts
    return {"<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[operator]
