"""What the bytes of an OCM component mean: its descriptor, and the objects in its layer (pure).

    Descriptor.packed(layer)      the layer of a registry that has the descriptor
    Descriptor.inline(descriptor) the one in a ModuleTemplate
    objects_in(layer, type)       the objects of a layer, after its digest was compared

A registry is not trusted: sizes, depth, number of files and what packed content unfolds to are bounded before the work.
The archives are read by the project's own reader, which gives nothing of one that is cut off or damaged.
"""

from __future__ import annotations

import hashlib
import io
import posixpath
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from stellwerk.apply.errors import UnreadableManifest
from stellwerk.apply.objects.desired import MAX_OBJECTS
from stellwerk.apply.objects.manifests import Document, read_text
from stellwerk.kube import yaml
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.kube.yaml import UnreadableYaml, YamlLimits
from stellwerk.operators.kyma.api_manifest import InstallInfo, LayerType
from stellwerk.operators.kyma.sources.signatures import NotTrusted, Trust, signed_digest
from stellwerk.render.errors import BadArchive, SourceError, shown
from stellwerk.render.files import archive, tar_reader
from stellwerk.render.files.digests import is_verifiable
from stellwerk.render.files.files import clean_path
from stellwerk.render.files.limits import ArchiveLimits
from stellwerk.render.files.tar_reader import EntryKind, TarEntry

RAW_MANIFEST = "raw-manifest"
"""The resource of a component that is installed."""
DESCRIPTOR_FILE = "component-descriptor.yaml"
DESCRIPTORS_FOLDER = "component-descriptors"
"""Below which folder of a registry components are."""

MOST_DESCRIPTOR_BYTES = 100 * 1024
MOST_DESCRIPTOR_LAYER_BYTES = 1024 * 1024
"""Its archive, unpacked: tar pads to 10 KiB, and tools add attributes."""
MOST_MANIFEST_BYTES = 16 * 2**20
"""Of a layer, unpacked."""
_DESCRIPTOR_LIMITS = ArchiveLimits(bytes=MOST_DESCRIPTOR_LAYER_BYTES, entries=100)
_MANIFEST_LIMITS = ArchiveLimits(bytes=MOST_MANIFEST_BYTES, entries=100)
_YAML_LIMITS = YamlLimits(bytes=MOST_DESCRIPTOR_BYTES, depth=32, values=10_000)

_DOCUMENT_BYTES = 200
"""Of a Document and its Origin."""

_LAYERS = frozenset(("localBlob", "localBlob/v1", "localOciBlob", "localOciBlob/v1"))
_IMAGES = frozenset(("ociArtifact", "ociArtifact/v1"))
_OTHER_ARTIFACTS = ("ociRegistry", "ociImage")
"""How the types of accesses begin that earlier releases of OCM wrote for images. They are not localised."""
_TAR = "application/x-tar"
_BLOB_DIGEST, _ARTIFACT_DIGEST = "genericBlobDigest/v1", "ociArtifactDigest/v1"
"""How the digests of layers and of images are computed that a signature covers."""
_ONE_FILE = "tar archive has invalid structure, expected a single file"


class BadDescriptor(SourceError):
    """A component that cannot be used. Time alone does not mend it."""


class NameMapping(StrEnum):
    """How the name of a component becomes a path in its registry."""

    URL_PATH = "urlPath"
    SHA256_DIGEST = "sha256-digest"


@dataclass(frozen=True, slots=True)
class LayerReference:
    """A blob of a registry."""

    digest: str
    size: int = 0
    """0: not known."""

    @classmethod
    def of_descriptor(cls, config: bytes) -> LayerReference:
        """Where the configuration of an image has the descriptor of its component. Raises BadDescriptor."""
        layer = json_object(config, "the config blob").get("componentDescriptorLayer")
        if layer is None:
            raise BadDescriptor("the config blob has no componentDescriptorLayer")
        return cls.of(layer, "componentDescriptorLayer")

    @classmethod
    def of(cls, value: JsonValue, what: str) -> LayerReference:
        """From its JSON form. Raises BadDescriptor."""
        fields = _object(value, what)
        digest, size = _text(fields, "digest", what), fields.get("size", 0)
        if not is_verifiable(digest):
            raise BadDescriptor(f"{what} has no digest that can be compared: {shown(digest)!r}")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise BadDescriptor(f"{what} has a size that is no number")
        return cls(digest, size)


@dataclass(frozen=True, slots=True)
class RepositoryContext:
    """Where a component was published. One that was transferred is elsewhere, so a configured registry comes first."""

    base_url: str = ""
    sub_path: str = ""
    mapping: NameMapping = NameMapping.URL_PATH

    @classmethod
    def of(cls, values: JsonValue) -> RepositoryContext:
        """The last one counts: each transfer adds one. Raises BadDescriptor."""
        contexts = _objects(values, "repositoryContexts")
        if not contexts:
            return cls()
        last = contexts[-1]
        if (type_ := _text(last, "type", "repositoryContexts")) not in ("OCIRegistry", "ociRegistry"):
            raise BadDescriptor(f"the type {shown(type_)!r} of the repository context is not supported")
        mapping = _text(last, "componentNameMapping", "repositoryContexts") or NameMapping.URL_PATH
        if mapping not in tuple(NameMapping):
            raise BadDescriptor(f"the componentNameMapping {shown(mapping)!r} is not supported")
        base, path = (_text(last, key, "repositoryContexts") for key in ("baseUrl", "subPath"))
        return cls(base, path, NameMapping(mapping))


@dataclass(frozen=True, slots=True)
class Descriptor:
    """The parts of a component descriptor that an installation needs."""

    name: str
    version: str
    context: RepositoryContext = RepositoryContext()
    manifest: tuple[str, LayerType] | None = None
    """Reference and type of the layer with the objects of the module, if it has one."""
    images: tuple[str, ...] = ()
    """Images that take the place of those with the same name and tag."""

    @classmethod
    def packed(cls, layer: bytes, trust: Trust | None = None) -> Descriptor:
        """From the layer that holds it. Raises BadArchive, BadDescriptor, NotTrusted. Call it from a thread."""
        for entry in _entries(layer, _DESCRIPTOR_LIMITS):
            if clean_path(entry.name) == DESCRIPTOR_FILE and entry.kind is EntryKind.FILE:
                return cls.of(entry.content, trust)
        raise BadDescriptor(f"the layer of the descriptor has no file {DESCRIPTOR_FILE}")

    @classmethod
    def of(cls, content: bytes, trust: Trust | None = None) -> Descriptor:
        """From its YAML. Raises BadDescriptor, NotTrusted."""
        if len(content) > MOST_DESCRIPTOR_BYTES:
            raise BadDescriptor(f"{DESCRIPTOR_FILE} is larger than {MOST_DESCRIPTOR_BYTES >> 10} KiB")
        try:
            value = yaml.read_value(content, file=DESCRIPTOR_FILE, limits=_YAML_LIMITS)
        except UnreadableYaml as error:
            raise BadDescriptor(str(error)) from error
        return cls._of(_object(value, DESCRIPTOR_FILE), trust)

    @classmethod
    def inline(cls, value: JsonObject, trust: Trust | None = None) -> Descriptor | None:
        """The one of a ModuleTemplate; None if there is no component in it. Raises BadDescriptor, NotTrusted."""
        return cls._of(value, trust) if "component" in value or value.get("kind") == "ComponentVersion" else None

    @classmethod
    def _of(cls, value: JsonObject, trust: Trust | None) -> Descriptor:
        """Both forms name the same parts, in different places. With `trust` only what is signed counts."""
        if "component" in value:
            schema = _text(_object(value.get("meta") or {}, "meta"), "schemaVersion", "meta") or "v2"
            if schema != "v2":
                raise BadDescriptor(f"the schemaVersion {shown(schema)!r} of the descriptor is not supported")
            identity = body = _object(value["component"], "component")
            contexts = body.get("repositoryContexts")
        elif (value.get("apiVersion"), value.get("kind")) == ("ocm.software/v3alpha1", "ComponentVersion"):
            identity, body = _object(value.get("metadata"), "metadata"), _object(value.get("spec") or {}, "spec")
            contexts = value.get("repositoryContexts")
        else:
            raise BadDescriptor("the descriptor is neither of schema v2 nor of ocm.software/v3alpha1")
        name, version = (_text(identity, key, "component") for key in ("name", "version"))
        if not name or not version:
            raise BadDescriptor("the component has no name or no version")
        resources = _objects(body.get("resources"), "resources")
        if trust is not None:
            trust.check(value)
            resources = [_as_signed(each) for each in resources]
        accesses = [(_text(each, "name", "resources"), _object(each.get("access"), "access")) for each in resources]
        return cls(
            name, version, RepositoryContext.of(contexts), _manifest(accesses, version), tuple(_images(accesses))
        )

    @property
    def path(self) -> str:
        """Where the layers of the component are, below the folder of components."""
        is_hashed = self.context.mapping is NameMapping.SHA256_DIGEST
        return hashlib.sha256(self.name.encode()).hexdigest() if is_hashed else self.name

    def install(self, repository: str) -> InstallInfo | None:
        """What a Manifest installs from a registry, given as HOST/PATH; None without a layer of objects."""
        if self.manifest is None:
            return None
        reference, type_ = self.manifest
        source: JsonObject = {"repo": repository, "name": self.path, "ref": reference, "type": type_.value}
        return InstallInfo(name=RAW_MANIFEST, source=source)


class ModuleObjects(tuple[Document, ...]):
    """The objects of a module. Read-only, because all Manifests with its version share them."""

    memory_bytes: int
    """How much they need."""

    @classmethod
    def of(cls, text: str | bytes, file: str = "") -> ModuleObjects:
        """The objects of a YAML text. Raises UnreadableManifest. Call it from a thread."""
        found = cls(read_text(text, file=file))
        if not found:
            raise UnreadableManifest("it has no objects", file=file)
        if len(found) > MAX_OBJECTS:
            raise UnreadableManifest(f"it has more than {MAX_OBJECTS} objects", file=file)
        found.memory_bytes = _memory_bytes(found)
        return found


def _memory_bytes(objects: Sequence[Document]) -> int:
    """What is there once is counted once: keys that are repeated, and what several aliases of YAML name."""
    rest: list[JsonValue] = [document.body for document in objects]
    counted: set[int] = set()
    total = sys.getsizeof(objects) + len(rest) * _DOCUMENT_BYTES
    while rest:
        value = rest.pop()
        if id(value) in counted:
            continue
        counted.add(id(value))
        total += sys.getsizeof(value)
        if isinstance(value, dict):
            rest.extend(value)
            rest.extend(value.values())
        elif isinstance(value, list):
            rest.extend(value)
    return total


def objects_in(layer: bytes, type_: LayerType) -> ModuleObjects:
    """The objects in a layer. Raises BadArchive, BadDescriptor, UnreadableManifest. Call it from a thread."""
    if type_ is LayerType.OciRef:
        return ModuleObjects.of(archive.unpacked(layer, limits=_MANIFEST_LIMITS))
    files = [entry for entry in _entries(layer, _MANIFEST_LIMITS) if entry.kind is EntryKind.FILE]
    found = [entry for entry in files if not posixpath.basename(entry.name).startswith("._")]  # of macOS
    if len(found) != 1:
        raise BadDescriptor(_ONE_FILE)
    return ModuleObjects.of(found[0].content, shown(found[0].name))


def _entries(layer: bytes, limits: ArchiveLimits) -> Iterator[TarEntry]:
    """All of the archive is read before the first entry is given, so that nothing of one that is cut off is used."""
    content = io.BytesIO(archive.unpacked(layer, limits=limits))
    entries: list[TarEntry] = []
    for entry in tar_reader.entries(content.read):
        if len(entries) == limits.entries:
            raise BadArchive(f"it holds more than {limits.entries} entries")
        if entry.kind in (EntryKind.SYMLINK, EntryKind.HARD_LINK):
            raise BadArchive("it is a link; only files and folders are taken", entry=entry.name)
        if clean_path(entry.name) is None:
            raise BadArchive("its path leads out of the archive", entry=entry.name)
        entries.append(entry)
    return iter(entries)


# ---- the resources of a component


def _as_signed(resource: JsonObject) -> JsonObject:
    """A resource that leads to the content that was signed, wherever it is. Raises NotTrusted if it led elsewhere."""
    access = _object(resource.get("access"), "access")
    type_, name = _text(access, "type", "access"), _text(resource, "name", "resources")
    if name == RAW_MANIFEST and type_ in _LAYERS:
        digest = signed_digest(resource, _BLOB_DIGEST)
        if (_text(access, "localReference", "access") or digest) != digest:
            raise NotTrusted(f"the layer of the resource {RAW_MANIFEST!r} is not the signed one, which is {digest}")
        return {**resource, "access": {**access, "localReference": digest}}
    if type_ in _IMAGES and isinstance(image := access.get("imageReference"), str):
        digest = signed_digest(resource, _ARTIFACT_DIGEST)
        place, _, given = image.partition("@")
        if (given or digest) != digest:
            raise NotTrusted(f"the image of the resource {shown(name)!r} is not the signed one, which is {digest}")
        return {**resource, "access": {**access, "imageReference": f"{place}@{digest}"}}
    return resource


def _manifest(accesses: Sequence[tuple[str, JsonObject]], version: str) -> tuple[str, LayerType] | None:
    found: tuple[str, LayerType] | None = None
    for name, access in accesses:
        type_ = _text(access, "type", "access")
        if type_ not in _LAYERS and type_ not in _IMAGES and not type_.startswith(_OTHER_ARTIFACTS):
            raise BadDescriptor(f"access type not supported: {shown(type_)!r} of the resource {shown(name)!r}")
        if name == RAW_MANIFEST and type_ in _LAYERS:
            reference = _text(access, "localReference", "access") or _text(access, "digest", "access") or version
            is_tar = access.get("mediaType") == _TAR
            found = reference, LayerType.OciDir if is_tar else LayerType.OciRef
    return found


def _images(accesses: Sequence[tuple[str, JsonObject]]) -> Iterator[str]:
    for _, access in accesses:
        if access.get("type") in _IMAGES and (image := _text(access, "imageReference", "access")):
            yield image


# ---- JSON of others


def json_object(content: bytes, what: str) -> JsonObject:
    """The object of a text of JSON. Raises BadDescriptor."""
    try:
        value: JsonValue = msgspec.json.decode(content)
    except (msgspec.DecodeError, RecursionError):
        raise BadDescriptor(f"{what} is not JSON") from None
    return _object(value, what)


def _object(value: JsonValue, what: str) -> JsonObject:
    if not isinstance(value, Mapping):
        raise BadDescriptor(f"{what} is no object")
    return value


def _objects(value: JsonValue, what: str) -> Sequence[JsonObject]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise BadDescriptor(f"{what} is no list")
    return [_object(each, f"an entry of {what}") for each in value]


def _text(fields: JsonObject, key: str, what: str) -> str:
    value = fields.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadDescriptor(f"{key} in {what} is no text")
    return value
