"""What a Component refers to in Secrets and ConfigMaps, and what that comes to (pure).

    find      spec -> references          which object, which key, at which place of the spec
    settle    references + contents -> Resolved, or one failure that names all that is missing

Reading the contents comes between the two (`referenced_data.py`). All references are to the Component's own namespace.

A deletion needs the way into the cluster and nothing else: objects are deleted by the inventory, nothing is rendered.
So of a Component that is being deleted only the kubeconfig is looked at, and no other missing Secret can hold it back.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.api_spec import ReferenceKind, SubstituteReference
from stellwerk.operators.component.errors import InputsTooLarge, InvalidSpec, ReferencesUnreadable, ReferencesUnresolved
from stellwerk.operators.component.references import digests

KUBE_CONFIG_KEYS = ("value", "value.yaml", "value.yml")
VALUES_KEYS = ("values", "values.yaml", "values.yml")
LOGIN_KEYS = ("username", "password", "bearerToken", "ca.crt", "tls.crt", "tls.key")
PROVIDER = "sops"
"""The only way of encryption; an empty word means it, too."""

KUBE_CONFIG = "/kubeConfig/secretRef"
REPOSITORY = "/sourceRef/httpRepository/secretRef"
DECRYPTION = "/decryption/secretRef"

MOST_REFERENCES = 1_000
"""How many entries valuesFrom and substituteFrom may have each; of more, only the first ones are looked at (R-412)."""


class ReferencedObject(NamedTuple):
    """One Secret or ConfigMap. In text as messages of the original have it: `secret shop/values`."""

    kind: ReferenceKind
    key: ObjectKey

    def __str__(self) -> str:
        return f"{self.kind.lower()} {self.key}"


@dataclass(frozen=True, slots=True)
class Reference:
    """One place of the spec that refers to a Secret or ConfigMap."""

    place: str
    """A JSON pointer below `spec`."""
    target: ReferencedObject
    key: str = ""
    """The key that the spec names."""
    fallbacks: tuple[str, ...] = ()
    """The keys to try where it names none; neither: the whole object is meant."""

    @property
    def is_whole(self) -> bool:
        """Whether all keys are meant."""
        return not self.key and not self.fallbacks


@dataclass(frozen=True, slots=True)
class ReferencedContent:
    """What a Secret or ConfigMap holds."""

    data: Mapping[str, bytes] = field(repr=False)
    words: Callable[[], Iterable[str]] = field(default=tuple, repr=False, compare=False)
    """What of it must not be shown; collected when a text is compared with it."""
    _digests: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    def digest(self, key: str) -> str:
        """The fingerprint of the value under a key, or, without a key, of everything. Computed once."""
        if key not in self._digests:
            self._digests[key] = digests.of_bytes(self.data[key]) if key else _digest_of_all(self.data)
        return self._digests[key]


@dataclass(frozen=True, slots=True)
class UnreadReference:
    """Why there is no content. `may_come`: it is absent and may yet appear; else reading it failed."""

    why: str
    may_come: bool


Found: TypeAlias = Mapping[ReferencedObject, ReferencedContent | UnreadReference]


@dataclass(frozen=True, slots=True)
class NamedText:
    """A text and where it came from, as people read it: `secret shop/values, key values.yaml`."""

    origin: str
    text: bytes = field(repr=False)
    digest: str = ""
    """The fingerprint of the text."""


@dataclass(frozen=True, slots=True)
class LoginSecret:
    """A Secret that lets us in somewhere. Its text form names the Secret and no more."""

    origin: str
    data: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """All that a Component refers to. No text form shows a value."""

    kube_config: NamedText | None = None
    login: LoginSecret | None = None
    """For the web server that the source is."""
    values: tuple[NamedText, ...] = ()
    """Texts to merge, in this order, below `spec.values`."""
    decryption_keys: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    decryption_secret: str = ""
    """Which Secret the keys are of, for messages."""
    substitutes: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables, those of `spec.postBuild.substitute` on top."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """The fingerprint of each reference by its place; part of the Component's. The login has none: a password that is
    renewed changes nothing that is applied."""

    @property
    def size(self) -> int:
        """Bytes of all texts and variables, each text once."""
        texts = sum(len(text.text) for text in last_of_each(self.values))
        return texts + sum(map(len, self.substitutes.values()))


# ---- which


def find(component: Component) -> tuple[Reference, ...]:
    """What a pass on the Component has to read. Raises InvalidSpec where that is too much."""
    if not component.metadata.is_terminating:
        _check_count("valuesFrom", component.spec.values_from)
        _check_count("postBuild.substituteFrom", _substitutes_from(component))
    return tuple(_of_deletion(component) if component.metadata.is_terminating else _all(component))


def for_source(component: Component) -> tuple[Reference, ...]:
    """What has to be read before the source can be asked."""
    return tuple(_of_source(component))


def targets(component: Component) -> frozenset[ReferencedObject]:
    """The Secrets and ConfigMaps whose change concerns the Component, whatever it is doing."""
    return frozenset(reference.target for reference in _all(component))


def index(kind: ReferenceKind, component: Component) -> Iterable[str]:
    """For an index of a store: the Secrets, or the ConfigMaps, as `namespace/name`."""
    return (str(target.key) for target in targets(component) if target.kind is kind)


def _of_deletion(component: Component) -> Iterator[Reference]:
    if component.spec.kube_config is not None:
        named = component.spec.kube_config.secret_ref
        yield Reference(KUBE_CONFIG, _secret(component, named.name), named.key, KUBE_CONFIG_KEYS)


def _of_source(component: Component) -> Iterator[Reference]:
    repository = component.spec.source_ref.http_repository
    if repository is not None and repository.secret_ref is not None:
        yield Reference(REPOSITORY, _secret(component, repository.secret_ref.name))


def _all(component: Component) -> Iterator[Reference]:
    spec = component.spec
    yield from _of_deletion(component)
    yield from _of_source(component)
    for number, values in enumerate(spec.values_from[:MOST_REFERENCES]):
        target = _target(component, values.kind, values.name)
        yield Reference(f"/valuesFrom/{number}", target, values.key, VALUES_KEYS)
    if spec.decryption is not None:
        yield Reference(DECRYPTION, _secret(component, spec.decryption.secret_ref.name))
    for number, substitutes in enumerate(_substitutes_from(component)[:MOST_REFERENCES]):
        target = _target(component, substitutes.kind, substitutes.name)
        yield Reference(f"/postBuild/substituteFrom/{number}", target)


def _substitutes_from(component: Component) -> Sequence[SubstituteReference]:
    return component.spec.post_build.substitute_from if component.spec.post_build else ()


def _check_count(field: str, entries: Sequence[object]) -> None:
    if len(entries) > MOST_REFERENCES:
        raise InvalidSpec(field, f"has {len(entries)} entries; at most {MOST_REFERENCES} are allowed")


def _secret(component: Component, name: str) -> ReferencedObject:
    return _target(component, "", name)


def _target(component: Component, kind: str, name: str) -> ReferencedObject:
    found = ReferenceKind.ConfigMap if kind == ReferenceKind.ConfigMap else ReferenceKind.Secret
    return ReferencedObject(found, ObjectKey(component.metadata.namespace, name))


# ---- how much they are

MOST_BYTES = 8 * 2**20
"""Of everything that a Component refers to."""


def size_of(references: Sequence[Reference], found: Found) -> int:
    """The bytes of all that is referred to; what is referred to several times counts once."""
    sizes: dict[tuple[ReferencedObject, str], int] = {}
    for reference in references:
        content = found[reference.target]
        if isinstance(content, ReferencedContent):
            key = _key_of(reference, content)
            data = [content.data[key]] if key in content.data else content.data.values() if reference.is_whole else ()
            sizes[reference.target, key] = sum(map(len, data))
    return sum(sizes.values())


def check_size(size: int) -> None:
    """Raises `InputsTooLarge` where a Component refers to more than it may."""
    if size > MOST_BYTES:
        raise InputsTooLarge(size, MOST_BYTES)


def last_of_each(texts: Sequence[NamedText]) -> list[NamedText]:
    """Each text once, at its last place: merged there, it overrides everything before."""
    last = {(text.origin, text.digest): number for number, text in enumerate(texts)}
    return [text for number, text in enumerate(texts) if last[text.origin, text.digest] == number]


def _key_of(reference: Reference, content: ReferencedContent) -> str:
    """The key that a reference comes to; empty for all keys, or where there is none."""
    return reference.key or next((key for key in reference.fallbacks if key in content.data), "")


# ---- what they come to


def settle(component: Component, references: Sequence[Reference], found: Found) -> Resolved:
    """The contents of the references. `found` has every target of them.

    Raises `ReferencesUnresolved` with everything that is missing, `ReferencesUnreadable` where nothing of it may come
    by itself, `InvalidSpec` for another way of encryption than sops.
    """
    taken = {reference.place: _take(reference, found[reference.target]) for reference in references}
    problems = [(place, one) for place, one in taken.items() if isinstance(one, UnreadReference)]
    if problems:
        failure = ReferencesUnresolved if any(one.may_come for _, one in problems) else ReferencesUnreadable
        raise failure("; ".join(f"{place}: {one.why}" for place, one in problems))
    return _resolved(component, {place: one for place, one in taken.items() if not isinstance(one, UnreadReference)})


@dataclass(frozen=True, slots=True)
class _Taken:
    """What one reference comes to: a value under a key, or, without a key, all of them."""

    origin: str
    content: ReferencedContent = field(repr=False)
    key: str = ""

    @property
    def data(self) -> Mapping[str, bytes]:
        return self.content.data

    @property
    def named(self) -> NamedText:
        return NamedText(f"{self.origin}, key {self.key}", self.data[self.key], self.digest)

    @property
    def digest(self) -> str:
        return self.content.digest(self.key)


def _digest_of_all(data: Mapping[str, bytes]) -> str:
    return digests.of_values({key: base64.b64encode(value).decode() for key, value in data.items()})


def _take(reference: Reference, content: ReferencedContent | UnreadReference) -> _Taken | UnreadReference:
    if isinstance(content, UnreadReference):
        return UnreadReference(f"error loading {reference.target}: {content.why}", content.may_come)
    if reference.is_whole:
        return _Taken(str(reference.target), content)
    if reference.key and reference.key not in content.data:
        return UnreadReference(f"key {reference.key} not found in {reference.target}", may_come=True)
    key = _key_of(reference, content)
    if not key:
        tried = ", ".join(reference.fallbacks)
        return UnreadReference(f"no matching key found in {reference.target} (looked for {tried})", may_come=True)
    return _Taken(str(reference.target), content, key)


def _resolved(component: Component, taken: Mapping[str, _Taken]) -> Resolved:
    keys = taken[DECRYPTION].data if DECRYPTION in taken else {}
    _check_provider(component, keys)
    return Resolved(
        kube_config=taken[KUBE_CONFIG].named if KUBE_CONFIG in taken else None,
        login=LoginSecret(taken[REPOSITORY].origin, taken[REPOSITORY].data) if REPOSITORY in taken else None,
        values=tuple(one.named for place, one in taken.items() if place.startswith("/valuesFrom/")),
        decryption_keys=keys,
        decryption_secret=taken[DECRYPTION].origin if DECRYPTION in taken else "",
        substitutes=_substitutes(component, taken),
        digests={place: one.digest for place, one in taken.items() if place != REPOSITORY},
    )


def _check_provider(component: Component, keys: Mapping[str, bytes]) -> None:
    provider = component.spec.decryption.provider if component.spec.decryption else ""
    if keys and provider not in ("", PROVIDER):
        raise InvalidSpec("decryption.provider", f"invalid decryption provider: {provider}; expected {PROVIDER}")


def _substitutes(component: Component, taken: Mapping[str, _Taken]) -> dict[str, str]:
    """Later ones win; the spec's own win over all. A terminating Component has none: nothing is rendered."""
    variables: dict[str, str] = {}
    for place, one in taken.items():
        if place.startswith("/postBuild/"):
            variables.update({key: _text(key, one) for key in sorted(one.data)})
    if component.spec.post_build is not None and not component.metadata.is_terminating:
        variables.update(component.spec.post_build.substitute)
    return variables


def _text(key: str, taken: _Taken) -> str:
    try:
        return taken.data[key].decode()
    except UnicodeDecodeError:
        raise InvalidSpec(
            "postBuild.substituteFrom", f"key {key} of {taken.origin} is not text and cannot be substituted"
        ) from None
