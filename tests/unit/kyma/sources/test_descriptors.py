"""What the bytes of a component mean, and what is refused of them."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import re
import tarfile
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.kyma.sources.components import (
    MANIFEST,
    NAME,
    OBJECT,
    VERSION,
    blob,
    component,
    config_of,
    image,
    layer_of,
)
from tests.unit.render.archives import Member, tar, tar_of

from stellwerk.apply.errors import UnreadableManifest
from stellwerk.operators.kyma.api_manifest import LayerType
from stellwerk.operators.kyma.sources.descriptors import (
    BadDescriptor,
    Descriptor,
    LayerReference,
    objects_in,
)
from stellwerk.render.errors import BadArchive, SourceError

REGISTRY = "registry.example.com/modules"
D1 = f"sha256:{'1' * 64}"
HASHED = {"type": "OCIRegistry", "baseUrl": "a.example.com", "componentNameMapping": "sha256-digest"}


def read(*resources: dict[str, Any], **fields: Any) -> Descriptor:
    """A component as it comes from a registry."""
    return Descriptor.packed(layer_of(component(*resources, **fields)))


# ---- descriptors


@pytest.mark.req("KYMA-07")
def test_the_layer_of_objects_becomes_the_source_of_the_manifest() -> None:
    """Repository of the settings, name of the component, digest of the layer."""
    install = read(blob("raw-manifest", D1), blob("default-cr", "sha256:2")).install(REGISTRY)

    assert install is not None
    assert install.name == "raw-manifest"
    assert install.source == {"repo": REGISTRY, "name": NAME, "ref": D1, "type": "oci-ref"}


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (blob("raw-manifest", D1, "application/x-tar"), (D1, LayerType.OciDir)),
        (blob("raw-manifest", "", digest=D1), (D1, LayerType.OciRef)),
        (blob("raw-manifest", ""), (VERSION, LayerType.OciRef)),
        (blob("raw-manifest", D1, type="localOciBlob/v1"), (D1, LayerType.OciRef)),
        (blob("raw-manifest", D1, type="ociRegistry"), None),
        (blob("config", D1), None),
    ],
)
def test_reference_and_type_of_the_layer_are_read(
    resource: dict[str, Any], expected: tuple[str, LayerType] | None
) -> None:
    found = read(resource)
    assert found.manifest == expected
    assert (found.install(REGISTRY) is None) == (expected is None)


@pytest.mark.req("KYMA-52")
def test_images_that_are_localised_are_read_from_artifacts_only() -> None:
    found = read(image("a.example.com/b/app:1.0"), image("other:1", "ociRegistry"), image("c:2", "ociArtifact/v1"))
    assert found.images == ("a.example.com/b/app:1.0", "c:2")


def test_a_component_of_the_newer_schema_is_read() -> None:
    descriptor = {
        "apiVersion": "ocm.software/v3alpha1",
        "kind": "ComponentVersion",
        "metadata": {"name": NAME, "version": VERSION},
        "repositoryContexts": [{"type": "OCIRegistry", "baseUrl": "a"}, {"type": "ociRegistry", "baseUrl": "b"}],
        "spec": {"resources": [blob("raw-manifest", D1)]},
    }
    found = Descriptor.packed(layer_of(descriptor))
    assert (found.name, found.version, found.context.base_url) == (NAME, VERSION, "b")
    assert found.manifest == (D1, LayerType.OciRef)


def test_the_name_is_hashed_if_the_last_context_asks_for_it() -> None:
    assert read(repositoryContexts=[HASHED]).path == hashlib.sha256(NAME.encode()).hexdigest()
    assert read(repositoryContexts=[HASHED, {"type": "OCIRegistry", "baseUrl": "b"}]).path == NAME


def test_a_packed_archive_and_a_plain_one_have_one_meaning() -> None:
    layer = layer_of(component(blob("raw-manifest", D1)))
    assert Descriptor.packed(gzip.compress(layer)) == Descriptor.packed(layer)


def test_an_inline_descriptor_is_one_only_if_it_has_a_component() -> None:
    found = Descriptor.inline(component(blob("raw-manifest", D1)))
    assert found is not None
    assert found.manifest == (D1, LayerType.OciRef)
    assert Descriptor.inline({}) is None
    assert Descriptor.inline({"anything": 1}) is None


def test_a_config_blob_names_the_layer_of_the_descriptor() -> None:
    layer = layer_of(component())
    found = LayerReference.of_descriptor(config_of(layer))
    assert (found.digest, found.size) == (f"sha256:{hashlib.sha256(layer).hexdigest()}", len(layer))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (b"{", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "is no object"),
        (b"{}", "has no componentDescriptorLayer"),
        (b'{"componentDescriptorLayer": {}}', "no digest"),
        (b'{"componentDescriptorLayer": {"digest": "sha256:12"}}', "no digest"),
        (b'{"componentDescriptorLayer": {"digest": 5}}', "digest in componentDescriptorLayer is no text"),
        (b'{"componentDescriptorLayer": {"digest": "%s", "size": -1}}' % D1.encode(), "size"),
        (b'{"componentDescriptorLayer": {"digest": "%s", "size": true}}' % D1.encode(), "size"),
    ],
)
def test_a_config_blob_that_names_no_layer_is_refused(config: bytes, message: str) -> None:
    with pytest.raises(BadDescriptor, match=message):
        LayerReference.of_descriptor(config)


@pytest.mark.parametrize(
    ("descriptor", "message"),
    [
        ({}, "neither of schema v2 nor"),
        ({"meta": {"schemaVersion": "v1"}, "component": {}}, "schemaVersion 'v1'"),
        ({"component": []}, "component is no object"),
        ({"component": {"name": NAME}}, "no name or no version"),
        ({"component": {"name": 5, "version": VERSION}}, "name in component is no text"),
        (component(resources={}), "resources is no list"),
        (component(resources=[5]), "an entry of resources is no object"),
        (component({"name": "raw-manifest"}), "access is no object"),
        (component(blob("raw-manifest", D1, type="s3")), "access type not supported: 's3'"),
        (component(blob("raw-manifest", D1, localReference=5)), "localReference in access is no text"),
        (component(repositoryContexts=[{"type": "OCIRegistry", "componentNameMapping": "x"}]), "'x' is not supported"),
        (component(repositoryContexts=[{"type": "CTF"}]), "'CTF' of the repository context is not supported"),
    ],
)
def test_a_descriptor_that_cannot_be_used_is_refused_by_name(descriptor: dict[str, Any], message: str) -> None:
    with pytest.raises(BadDescriptor, match=message):
        Descriptor.packed(layer_of(descriptor))


_BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + at)}: &{chr(98 + at)} [{', '.join(['*' + chr(97 + at)] * 10)}]\n" for at in range(9)
)


@pytest.mark.parametrize("text", [_BOMB, "[" * 5_000, "a: " + "x" * 102_400, "a: [", "a: 1\n---\nb: 2\n", ""])
def test_text_that_unfolds_or_is_no_yaml_is_refused(text: str) -> None:
    with pytest.raises(BadDescriptor):
        Descriptor.packed(tar_of({"component-descriptor.yaml": text.encode()}))


def test_a_layer_without_a_descriptor_is_refused() -> None:
    with pytest.raises(BadDescriptor, match=r"no file component-descriptor\.yaml"):
        Descriptor.packed(tar_of({"other.yaml": b"a: 1"}))


# ---- layers


@pytest.mark.req("KYMA-10")
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_layer_is_the_yaml_itself_or_the_one_file_of_an_archive(pack: Any) -> None:
    """Both have the same objects."""
    archived = tar([Member("./", type=tarfile.DIRTYPE), Member("._a.yaml", b"x"), Member("a.yaml", MANIFEST)])
    for layer, type_ in ((MANIFEST, LayerType.OciRef), (archived, LayerType.OciDir)):
        assert [document.body for document in objects_in(pack(layer), type_)] == [OBJECT]


def test_lists_are_unfolded_and_empty_documents_left_out() -> None:
    text = b"---\n---\nkind: List\napiVersion: v1\nitems:\n- {kind: A}\n- {kind: B}\n---\nkind: C\n---\n"
    assert [document.body["kind"] for document in objects_in(text, LayerType.OciRef)] == ["A", "B", "C"]


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([], "tar archive has invalid structure, expected a single file"),
        ([Member("._a.yaml", b"x")], "tar archive has invalid structure, expected a single file"),
        ([Member("a", b"x"), Member("b", b"x")], "tar archive has invalid structure, expected a single file"),
        ([Member("../a", b"x")], "leads out of the archive"),
        ([Member("/a", b"x")], "leads out of the archive"),
        ([Member("a", b"x"), Member("b", type=tarfile.SYMTYPE, target="/etc/passwd")], "it is a link"),
        ([Member("a", b"x"), Member("b", type=tarfile.LNKTYPE, target="a")], "it is a link"),
        ([Member("a", type=tarfile.FIFOTYPE)], "named pipe"),
        ([Member("a", type=tarfile.CHRTYPE)], "character device"),
        ([Member("a", type=tarfile.BLKTYPE)], "block device"),
        ([Member("a/../../b", b"x")], "leads out of the archive"),
        ([Member("a\\..\\..\\b", b"x"), Member("c", b"x")], "expected a single file"),
        ([Member(f"d{at}", type=tarfile.DIRTYPE) for at in range(101)], "more than 100 entries"),
    ],
)
def test_an_archive_that_is_not_one_file_is_refused(members: list[Member], message: str) -> None:
    with pytest.raises(SourceError, match=message):
        objects_in(tar(members), LayerType.OciDir)


def test_an_archive_that_is_cut_off_gives_nothing() -> None:
    """Or what is missing of it would be deleted from the cluster."""
    whole = tar([Member("a.yaml", MANIFEST)])
    for cut in (512, 700, 1024):
        with pytest.raises(BadArchive):
            objects_in(whole[:cut], LayerType.OciDir)
    with pytest.raises(BadArchive):
        objects_in(gzip.compress(MANIFEST)[:-9], LayerType.OciRef)


@pytest.mark.parametrize("type_", LayerType)
def test_what_a_layer_unfolds_to_is_bounded_before_it_is_there(type_: LayerType) -> None:
    bomb = gzip.compress(bytes(64 * 2**20), 9)
    tracemalloc.start()
    try:
        with pytest.raises(BadArchive):
            objects_in(bomb, type_)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 40 * 2**20, f"{peak >> 20} MiB"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_BOMB, "aliases unfold to more than 10 times the text"),
        ("a: &a " + "x" * 60_000 + "\nb:\n" + "- *a\n" * 1_000, "unfold to more than"),
        ("a: " + "[" * 50_000, "is nested deeper than 100 levels"),
        ("kind: A\nkind: B", "line 2: the key 'kind' appears twice"),
        ("kind: A\n---\n- kind: B", "document 2, line 3: expected a mapping"),
        ("kind: List\nitems: [1]", "an item of the List is not a mapping"),
        ("kind: List\nitems: [" + "{kind: A}," * 5_001 + "]", "it has more than 5000 objects"),
        ("a: .inf", "no form in JSON"),
        ("a: \x00", "is not"),
        ("a: *b", "an alias names nothing"),
        ("a: &a [*a]", "an alias names nothing"),
        ("%TAG !a! !b\n" * 101 + "---\na: 1", "more than 100 tag handles"),
        ("# nothing\n---\n", "it has no objects"),
    ],
)
def test_yaml_that_is_harmful_or_no_set_of_objects_is_refused_with_its_place(text: str, message: str) -> None:
    content = text.encode()
    for layer, type_ in (
        (content, LayerType.OciRef),
        (gzip.compress(content), LayerType.OciRef),
        (tar_of({"a.yaml": content}), LayerType.OciDir),
    ):
        with pytest.raises(UnreadableManifest, match=re.escape(message)) as caught:
            objects_in(layer, type_)
        assert caught.value.file == ("a.yaml" if type_ is LayerType.OciDir else "")
        assert len(str(caught.value)) < 300


def test_the_values_of_a_manifest_are_bounded_which_bounds_the_time_to_read_it() -> None:
    with pytest.raises(UnreadableManifest, match="holds more than 250000 values"):
        objects_in(b"a: [" + b"1," * 260_000 + b"1]", LayerType.OciRef)


def test_reading_large_objects_takes_time_and_memory_in_proportion_to_their_bytes() -> None:
    """Twice as much takes twice as long, and the reported memory is about that which is taken."""
    text = MANIFEST + b"data:\n" + b"".join(b"  key-%d: value of it\n" % at for at in range(100))
    seconds: list[float] = []
    for documents in (40, 160):
        content = b"---\n".join([text] * documents)
        began = time.thread_time()
        objects_in(content, LayerType.OciRef)
        seconds.append(time.thread_time() - began)
    assert seconds[1] < 4 * 4 * seconds[0]

    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        found = objects_in(b"---\n".join([text] * 40), LayerType.OciRef)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert taken / 2 < found.memory_bytes < taken * 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["component", "meta", "name", "version", "resources", "access", "type", "repositoryContexts", "localReference"]
)


@settings(max_examples=40)
@given(st.dictionaries(KEYS, JSON | st.dictionaries(KEYS, JSON) | st.lists(st.dictionaries(KEYS, JSON)), max_size=5))
def test_any_descriptor_is_read_or_refused_by_a_named_error(value: dict[str, Any]) -> None:
    named: dict[str, Any] = {"component": {"name": NAME, "version": VERSION, **value}}
    for text in (value, named):
        with contextlib.suppress(BadDescriptor):
            Descriptor.inline(text)
        with contextlib.suppress(BadDescriptor):
            Descriptor.of(json.dumps(text).encode())


@given(st.binary(max_size=2_000))
def test_any_bytes_are_a_manifest_or_refused_by_a_named_error(data: bytes) -> None:
    for type_ in LayerType:
        with contextlib.suppress(SourceError, UnreadableManifest):
            objects_in(data, type_)
    with contextlib.suppress(SourceError):
        Descriptor.packed(data)
