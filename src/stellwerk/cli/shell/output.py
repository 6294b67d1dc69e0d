"""Results for programs: JSON, YAML, names and JSONPath.

They are a promise: an object as the API server gave it, without managedFields; several as a `List` of API version v1,
as kubectl prints them. No colour, and UTF-8 in every locale, because JSON is UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial

import msgspec
import yaml

from stellwerk.cli.shell import settings, text
from stellwerk.cli.shell.errors import Exit, Failure
from stellwerk.cli.shell.settings import Output
from stellwerk.cli.shell.text import Style
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured
from stellwerk.kube.yaml import text_node
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):
    from stellwerk.cli.shell import jsonpath


def print_objects(objects: Sequence[Unstructured], output: Output, *, as_list: bool) -> None:
    """Print objects in a form for programs. With `as_list`, one object alone is a list, too."""
    if output.form == "name":
        if objects:
            settings.show(map(qualified_name, objects))
        return
    if output.form == "custom-columns":
        settings.show(custom_columns(objects, output))
        return
    print_value(listed(objects) if as_list else dict(objects[0].body), output)


def custom_columns(objects: Sequence[Unstructured], output: Output) -> list[str]:
    """The lines of the table that the user has asked for, titles first."""
    columns = [text.TableColumn(title, least=6, gap=3) for title, _ in output.columns]
    rows = [
        [",".join(map(jsonpath.printed, jsonpath.values(path, obj.body))) or "<none>" for _, path in output.columns]
        for obj in objects
    ]
    return text.table(columns, rows)


def print_manifests(bodies: Sequence[JsonObject], output: Output) -> None:
    """Print objects that are meant to be applied, by default as a stream of YAML."""
    if output.form in ("table", "yaml"):
        _print("".join(f"---\n{as_yaml(body)}" for body in bodies))
    else:
        print_objects([Unstructured.of(body) for body in bodies], output, as_list=True)


def print_value(value: JsonObject, output: Output) -> None:
    """Print one JSON object as JSON, YAML or through a JSONPath."""
    _check(output)
    _print(formatted(value, output))


def print_result(lines: Callable[[Style], Iterable[str]], value: Callable[[], JsonObject]) -> None:
    """Print a result in the form of the call: as lines for people, or as one JSON object."""
    call = settings.current()
    if call.output.is_table:
        settings.show(lines(call.style()))
    else:
        print_value(value(), call.output)


def print_values(values: Sequence[JsonObject], output: Output) -> None:
    """Print several JSON objects that are no objects of Kubernetes: as a bare list, or one after the other through a
    JSONPath."""
    _check(output)
    match output.form:
        case "jsonpath":
            _print("".join(formatted(value, output) for value in values))
        case "yaml":
            _print(as_yaml([*values]))
        case _:
            _print(as_json([*values]))


def _check(output: Output) -> None:
    if output.form not in ("json", "yaml", "jsonpath"):
        raise Failure(f"-o {output.form} cannot print this", fix="use json or yaml", code=Exit.USAGE)


def _print(text: str) -> None:
    settings.show_exactly(_DOUBTFUL.sub(_visible, text) if settings.is_terminal() else text)


_DOUBTFUL = re.compile("[^\t\n -~]")
"""What can steer a terminal or mislead a reader, and letters beyond ASCII, which are looked at one by one."""


def _visible(found: re.Match[str]) -> str:
    """The letter if it is harmless, else as JSON escapes it: JSON keeps its value."""
    letter = found.group()
    if text.is_harmless(letter):
        return letter
    units = letter.encode("utf-16-be", errors="surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def formatted(value: JsonObject, output: Output) -> str:
    """The JSON object as text in this form, ended by a newline (a JSONPath ends as its template does)."""
    match output.form:
        case "yaml":
            return as_yaml(value)
        case "jsonpath":
            return jsonpath.render(output.template, value)
        case _:
            return as_json(value)


def as_json(value: JsonValue) -> str:
    """JSON for people: indented, ended by a newline."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def as_yaml(value: JsonValue) -> str:
    """YAML in the block style; letters that could steer a terminal are escaped by the writer itself."""
    return str(yaml.dump(value, Dumper=_dumper(), sort_keys=False, default_flow_style=False, width=1000))


@cache
def _dumper() -> type[yaml.SafeDumper]:
    """Writes a text of several lines as such, so that a script in a ConfigMap can be read."""
    made: type[yaml.SafeDumper] = type("Dumper", (getattr(yaml, "CSafeDumper", yaml.SafeDumper),), {})
    made.add_representer(str, partial(text_node, as_block=True))
    return made


def listed(objects: Sequence[Unstructured]) -> JsonObject:
    """Several objects as one."""
    return {"apiVersion": "v1", "items": [obj.body for obj in objects], "kind": "List"}


def qualified_name(obj: Unstructured) -> str:
    """`btpoperator.operator.kyma-project.io/btpoperator`, as kubectl takes it."""
    group = f".{obj.gvk.group}" if obj.gvk.group else ""
    return f"{obj.gvk.kind.lower()}{group}/{obj.key.name}"
