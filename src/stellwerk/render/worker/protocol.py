"""The wire to the renderer: frames of JSON, as native/renderer/wire spells them.

A frame is a length of four bytes, big endian, and so many bytes of one JSON document. What is sent is made piece by
piece: files travel as base64, and an artifact at its limit must not stand in memory three times over. What comes in is
bounded before it is read and typed before it is believed.
"""

from __future__ import annotations

import asyncio
import binascii
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from stellwerk.kube.threads import LARGE_BYTES
from stellwerk.kube.types import sizes
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.render import errors
from stellwerk.render.errors import InvalidValues, RendererBroken, Unrenderable
from stellwerk.render.request.request import Chart, Claim, Missing, Rendered, RenderRequest, TemplateQuery, Texts

MAX_FRAME = 192 << 20
MAX_CALL = 1 << 20
"""A question holds at most a kubeconfig."""
MAX_ANSWER = 32 << 20
"""Of the answer to a question: decoded, it takes most of the memory that one rendering may take."""
_PORTION = 64 << 10
_PIECE = 48 << 10
"""Of a file, encoded at a time. A multiple of 3, so that the pieces join to one base64 text."""
MOST_CONTAINERS = 500_000
"""Lists and mappings of a result, each a hundred times as large in memory as in its text (R-411)."""
_LARGEST_OBJECT = 3 << 20
"""What an API server takes of one object."""
_MARGIN = 1 << 20
"""What a result may weigh besides its objects."""

_json = msgspec.json.Encoder(order="sorted")


# ---- requests


@dataclass(frozen=True, slots=True, repr=False)
class RequestBody:
    """A request as JSON, but for its number."""

    rest: bytes
    """An object without its closing brace."""
    files: Mapping[str, bytes]

    @property
    def size(self) -> int:
        """How long the JSON will be, at most."""
        return len(self.rest) + 64 + sum(_file_size(path, content) for path, content in self.files.items())

    def frame(self, number: int) -> Iterator[bytes]:
        """The frame in portions: one for most requests, many small ones for large files."""
        portion = bytearray()
        for piece in self._pieces(number):
            portion += piece
            if len(portion) >= _PORTION:
                yield bytes(portion)
                portion.clear()
        yield bytes(portion)

    def _pieces(self, number: int) -> Iterator[bytes]:
        head = b'{"id":%d,' % number + self.rest[1:] + b',"files":{'
        names = [_json.encode(path) for path in self.files]
        size = len(head) + 2 + max(0, len(names) - 1)
        size += sum(len(name) + 3 + _base64_size(content) for name, content in zip(names, self._contents, strict=True))
        yield size.to_bytes(4, "big") + head
        for index, (name, content) in enumerate(zip(names, self._contents, strict=True)):
            comma = b"," if index else b""
            yield b'%b%b:"' % (comma, name)
            for start in range(0, len(content), _PIECE):
                yield binascii.b2a_base64(content[start : start + _PIECE], newline=False)
            yield b'"'
        yield b"}}"

    @property
    def _contents(self) -> list[bytes]:
        return list(self.files.values())


def body(request: RenderRequest, files: Mapping[str, bytes], path: str, values: bytes) -> RequestBody:
    """A request with the files that it needs and its values as JSON. Raises `InvalidValues` for what is no JSON."""
    post = request.post_build
    whole: dict[str, object] = {
        "path": path,
        "generator": request.generator,
        "prefix": request.prefix,
        "deleteHooks": request.delete_hooks,
        "values": msgspec.Raw(values),
        "release": {
            "name": request.release.name,
            "namespace": request.release.namespace,
            "service": request.release.service,
            "revision": request.release.revision,
        },
        "component": request.component,
        "componentDigest": request.component_digest,
        "cluster": msgspec.Raw(request.cluster.encoded),
        "decryption": {"keys": request.decryption, "from": request.decryption_from},
        "postBuild": {"substitute": post.substitute, "patches": post.patches, "images": post.images},
        "limits": {"outputBytes": request.limits.bytes, "objects": request.limits.objects},
    }
    return RequestBody(encoded(whole, "the request")[:-1], files)


def claim_body(claim: Claim) -> RequestBody:
    """A question about objects. Raises `InvalidValues` for what is no JSON."""
    return RequestBody(encoded({"claim": {"text": claim.text, "objects": claim.objects}}, "the claim")[:-1], {})


def texts_body(texts: Texts) -> RequestBody:
    """Templates of texts. Raises `InvalidValues` for what is no JSON."""
    templates = [{"name": name, "text": text} for name, text in texts.templates.items()]
    return RequestBody(encoded({"texts": {"templates": templates, "rows": texts.rows}}, "the templates")[:-1], {})


def encoded(value: object, source: str) -> bytes:
    """Canonical JSON. Raises `InvalidValues` for what has no form in it."""
    try:
        return _json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidValues(source, "something in it has no form in JSON") from error


def answer(number: int, value: JsonValue | Missing, failure: str = "") -> bytes:
    """The frame that answers a question."""
    said: dict[str, object] = {"id": number, "value": None}
    match value:
        case Missing.OBJECT:
            said["notFound"] = True
        case Missing.KIND:
            said["noKind"] = True
        case _:
            said["value"] = value
    if failure:
        said["error"] = failure
    content = encoded(said, "an answer")
    return len(content).to_bytes(4, "big") + content


def answer_digest(query: TemplateQuery, frame: bytes) -> bytes:
    """Of a question and the frame that answers it, without the number of the request, which is its first field."""
    digest = hashlib.sha256(_json.encode(query))
    digest.update(memoryview(frame)[frame.index(b",", 4) :])
    return digest.digest()


def _file_size(path: str, content: bytes) -> int:
    return 6 * len(path) + 8 + _base64_size(content)


def _base64_size(content: bytes) -> int:
    return 4 * -(-len(content) // 3)


# ---- responses


class TemplateCall(msgspec.Struct, frozen=True):
    """A question of a template."""

    method: str
    args: dict[str, Any]

    @property
    def query(self) -> TemplateQuery:
        """The question as a value. Raises `RendererBroken`."""
        if self.method not in ("lookup", "lookupList"):
            raise RendererBroken("the renderer asked something unknown; it does not fit this version")
        words = {_PYTHON_NAMES.get(key, key): value or "" for key, value in self.args.items()}
        try:
            return msgspec.convert({**words, "many": self.method == "lookupList"}, TemplateQuery)
        except msgspec.ValidationError as error:
            raise RendererBroken("the renderer asked for an object without saying which") from error


_PYTHON_NAMES = {"apiVersion": "api_version", "labelSelector": "label_selector"}


class RenderFailure(msgspec.Struct, frozen=True):
    """Why there is no result."""

    kind: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    missing: str = ""

    @property
    def error(self) -> errors.RenderError:
        """As an exception."""
        if self.kind == "PathNotFound":
            kind = errors.NotADirectory if self.message.startswith("not a directory") else errors.PathNotFound
            return kind(self.message.partition(": ")[2])
        if (unanswered := _UNANSWERED.get(self.kind)) is not None:
            return unanswered(self.message, line=self.line, column=self.column)
        known = _KINDS.get(self.kind)
        if known is None:
            return RendererBroken(f"the renderer failed ({self.kind}): {self.message}")
        failure = known(self.message, file=self.file, line=self.line, column=self.column)
        if isinstance(failure, errors.KustomizeFailed):
            failure.missing = self.missing
        return failure


_KINDS: Mapping[str, type[Unrenderable]] = {
    "InvalidChart": errors.InvalidChart,
    "InvalidConfig": errors.InvalidConfig,
    "InvalidValues": errors.RefusedValues,
    "TemplateFailed": errors.TemplateFailed,
    "InvalidManifest": errors.InvalidManifest,
    "KustomizeFailed": errors.KustomizeFailed,
    "SubstituteFailed": errors.SubstituteFailed,
    "PatchFailed": errors.PatchFailed,
    "DecryptFailed": errors.DecryptFailed,
    "UnsupportedHook": errors.UnsupportedHook,
    "LookupFailed": errors.LookupFailed,
    "LimitExceeded": errors.LimitExceeded,
}


_UNANSWERED: Mapping[str, type[errors.ExpressionError]] = {
    "InvalidExpression": errors.InvalidExpression,
    "ExpressionFailed": errors.ExpressionFailed,
}


class RendererMessage(msgspec.Struct, frozen=True):
    """A message of the renderer: exactly one of the last five."""

    id: int = 0
    call: TemplateCall | None = None
    result: msgspec.Raw = msgspec.Raw()
    verdict: bool | None = None
    texts: list[list[str]] | None = None
    error: RenderFailure | None = None


class _Chart(msgspec.Struct, rename="camel"):
    name: str
    version: str
    app_version: str = ""
    warnings: tuple[str, ...] = ()


class _Result(msgspec.Struct):
    generator: str
    objects: list[msgspec.Raw] | None = None
    origins: list[str] | None = None
    chart: _Chart | None = None
    uses: list[str] | None = None
    decrypted: tuple[str, ...] = ()


class _Uses(msgspec.Struct):
    uses: list[str] | None = None


_message = msgspec.json.Decoder(RendererMessage)
_result = msgspec.json.Decoder(_Result)
_uses = msgspec.json.Decoder(_Uses)
_values = msgspec.json.Decoder()
_mapping = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list = msgspec.json.Decoder(list[msgspec.Raw])

_NOT_JSON = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)


def read_message(content: bytes) -> RendererMessage:
    """One message. Raises `RendererBroken`."""
    try:
        message = _message.decode(content)
    except _NOT_JSON as error:
        raise _unreadable() from error
    said = (message.call, message.verdict, message.texts, message.error, bytes(message.result) or None)
    if sum(one is not None for one in said) != 1:
        raise _unreadable()
    return message


@dataclass(frozen=True, slots=True, repr=False)
class Result:
    """What files came to, as JSON, and what of the request had a part in it."""

    content: bytes
    uses: frozenset[str]
    answers: bytes = b""
    """A digest of what templates asked the cluster, and what it answered."""


def read_verdict(message: RendererMessage) -> bool:
    """The verdict that a message carries. Raises `RendererBroken`."""
    if message.verdict is None:
        raise _unreadable()
    return message.verdict


def read_texts(message: RendererMessage, texts: Texts) -> list[dict[str, str]]:
    """For each row, the text of each template by its name. Raises `RendererBroken`."""
    rows = message.texts
    if rows is None or len(rows) != len(texts.rows):
        raise _unreadable()
    try:
        return [dict(zip(texts.templates, row, strict=True)) for row in rows]
    except ValueError:
        raise _unreadable() from None


def read_uses(message: RendererMessage) -> Result:
    """The result that a message carries. Raises `RendererBroken`."""
    content = bytes(message.result)
    try:
        return Result(content, frozenset(_uses.decode(content).uses or ()))
    except _NOT_JSON as error:
        raise _unreadable() from error


def read_result(result: bytes) -> Rendered:
    """The objects of a result. Raises `RendererBroken`. Large results are read in a thread."""
    try:
        found = _result.decode(result)
        _check_containers(found.objects or ())
        objects = [_in_pieces(one) for one in found.objects or ()]
    except _NOT_JSON as error:
        raise _unreadable() from error
    origins = found.origins or []
    if len(objects) != len(origins) or not all(isinstance(obj, dict) for obj in objects):
        raise _unreadable()
    chart = _chart(found.chart) if found.chart is not None else None
    digest = hashlib.sha256(result).hexdigest()
    documents = cast("list[JsonObject]", objects)
    uses = frozenset(found.uses or ())
    return Rendered(
        found.generator, tuple(documents), tuple(origins), chart, uses, digest, len(result), found.decrypted
    )


def _check_containers(objects: Sequence[msgspec.Raw]) -> None:
    """Raises `LimitExceeded`. Brackets in strings count only in what is too large to be an object of a cluster."""
    texts = [bytes(obj) for obj in objects]
    if sum(map(sizes.brackets, texts)) <= MOST_CONTAINERS:
        return
    counts = [sizes.brackets(text) if len(text) > _LARGEST_OBJECT else sizes.containers(text) for text in texts]
    if sum(counts) > MOST_CONTAINERS:
        raise errors.LimitExceeded(f"the objects hold more than {MOST_CONTAINERS} lists and mappings")


def _in_pieces(content: msgspec.Raw) -> JsonValue:
    """A value of JSON. A large one is read piece by piece: other threads wait for as long as one call of the decoder
    takes."""
    view = memoryview(content)
    if view.nbytes > LARGE_BYTES and view[0] == ord("{"):
        return {key: _in_pieces(value) for key, value in _mapping.decode(content).items()}
    if view.nbytes > LARGE_BYTES and view[0] == ord("["):
        return [_in_pieces(value) for value in _list.decode(content)]
    return cast("JsonValue", _values.decode(content))


def _chart(found: _Chart) -> Chart:
    return Chart(found.name, found.version, found.app_version, found.warnings)


async def read_frame(reader: asyncio.StreamReader, most: int) -> bytes:
    """One frame. Raises `RendererBroken` where it is too large, and asyncio's errors where the other side is gone."""
    size = int.from_bytes(await reader.readexactly(4), "big")
    if size > most:
        raise RendererBroken(f"the renderer sent a frame of {size} bytes; it may be {most} at most")
    return await reader.readexactly(size)


def most_answered(request: RenderRequest) -> int:
    """How long a message may be."""
    return max(request.limits.bytes + _MARGIN, MAX_CALL)


def _unreadable() -> RendererBroken:
    return RendererBroken("the renderer sent something that is no message; it does not fit this version")
