"""The credentials of workloads: binding Secrets as they are read, and the Secrets made of them.

Of binding Secrets, the metadata of namespaces with applications is watched, and each value is read once per version. A
Secret with credentials is made once for its owner and never changed: a restart of the workload would be needed to use
another one, and that is decided elsewhere (`version.rollout`). It carries the versions of the binding Secrets that it
is made of, so that a change of these is seen without reading them.
"""

from __future__ import annotations

import base64
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from stellwerk.api.core import Secret
from stellwerk.kube import threads
from stellwerk.kube.client import conditional
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import (
    JsonObject,
    Kind,
    PartialObjectMetadata,
    metadata_of,
    owner_reference,
)
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication, ServiceInfo
from stellwerk.operators.cap.kinds.version import Workload
from stellwerk.operators.cap.pods import vcap
from stellwerk.operators.cap.pods.vcap import CredentialsUnusable, SecretData
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.control import secrecy
from stellwerk.runtime.reading.known import Refused

MOST_KEPT_BYTES = 32 << 20
"""Of the values of binding Secrets that are kept; the least recently used go first."""

UNKNOWN_VERSIONS = "unknown"
"""The versions of the binding Secrets in a Secret that was created again: its pods may have started with other ones."""

_LONGEST_PREFIX = 240
"""Of the name of a Secret: a dash and five characters follow."""
_GENERATED_PREFIX = 58
"""The part of a prefix, with its dash, that the API server keeps in a generated name."""
_SUFFIX = "[0-9a-f]{5}|[bcdfghjklmnpqrstvwxz2456789]{5}"
"""The end of a name: ours, or one that the API server generates."""

_BY_MARK = "mark"

Metadata = Informer[PartialObjectMetadata]


class SecretInTheWay(CredentialsUnusable):
    """A Secret that is not the owner's has the name. Caches may not show when it goes."""


class SecretEnding(SecretInTheWay):
    """A Secret that is being deleted has the name."""


@dataclass(slots=True)
class BindingSecrets:
    """The values of binding Secrets, each read once per version."""

    client: Client
    metadata: Callable[[str], Metadata]
    """The cache of the Secrets of a namespace, as metadata."""
    _kept: OrderedDict[ObjectKey, tuple[str, SecretData]] = field(default_factory=OrderedDict)

    async def read(self, key: ObjectKey) -> SecretData:
        """The data of a Secret. Raises CredentialsUnusable, ApiError."""
        cache = self.metadata(key.namespace)
        await cache.wait_settled()
        shown = cache.store.get(key)
        version = shown.metadata.resource_version if shown is not None else ""
        kept = self._kept.get(key)
        if kept is None or kept[0] != version or not cache.has_synced:
            secret = await self.client.find(Secret, key.name, key.namespace)
            if secret is None:
                self._kept.pop(key, None)
                raise CredentialsUnusable(absent(key))
            kept = self._kept[key] = (secret.metadata.resource_version, secret.decoded())
            self._kept.move_to_end(key)
            self._drop_oldest()
        self._kept.move_to_end(key)
        data = kept[1]
        secrecy.note(f"secret {key}", lambda: [value.decode("utf-8", "replace") for value in data.values()])
        return data

    def _drop_oldest(self) -> None:
        """Keep within the bound; the Secret that was read last stays in any case."""
        size = sum(len(value) for _, data in self._kept.values() for value in data.values())
        while size > MOST_KEPT_BYTES and len(self._kept) > 1:
            _, (_, dropped) = self._kept.popitem(last=False)
            size -= sum(map(len, dropped.values()))

    def version_shown(self, key: ObjectKey) -> str:
        """The resourceVersion of a Secret as the cache shows it; empty where it shows none."""
        shown = self.metadata(key.namespace).store.get(key)
        return shown.metadata.resource_version if shown is not None else ""

    def version_read(self, key: ObjectKey) -> str:
        """The resourceVersion of a Secret as it was last read; empty where it was not."""
        return self._kept[key][0] if key in self._kept else ""


@dataclass(slots=True)
class CredentialSecrets:
    """The Secrets that workloads read their credentials from."""

    client: Client
    bindings: BindingSecrets
    cache: Metadata
    """All Secrets with the label of an owner of credentials, as metadata."""

    def __post_init__(self) -> None:
        self.cache.store.add_index(
            _BY_MARK, lambda secret: [secret.metadata.labels.get(names.SECRET_OWNER_HASH_LABEL, "")]
        )

    async def keep(
        self, owner: Kind, prefix: str, application: CAPApplication, workload: Workload, *, renews: bool = False
    ) -> str:
        """Have the Secret for a workload of `owner`, and return its name. One that exists is used as it is.

        `renews`: make another one where its credentials are outdated, because what failed may have failed for them; the
        former Secret stays with its owner. Raises CredentialsUnusable, ApiError.
        """
        existing, namespace = self.of(owner, prefix), owner.metadata.namespace
        shown = self.versions_shown(application, workload, namespace) if existing and renews else ""
        if existing and shown in ("", existing[0].metadata.annotations.get(names.BINDINGS_ANNOTATION)):
            return existing[0].metadata.name
        text = await self.variable(application, workload, namespace)
        return await self.create(owner, prefix, application, workload, text, distinction=shown)

    def of(self, owner: Kind, prefix: str) -> Sequence[PartialObjectMetadata]:
        """The Secrets for a workload of `owner`, the newest first: while one replaces another there are two."""
        return usable(owner, self.cache.store.by(_BY_MARK, mark_of(owner, prefix)))

    async def variable(self, application: CAPApplication, workload: Workload, namespace: str) -> str:
        """VCAP_SERVICES of a workload, from the Secrets as they are now. Raises as `keep`."""
        secrets: Mapping[str, SecretData] = {
            key.name: await self.bindings.read(key) for key in consumed(application, workload, namespace)
        }
        services, consumes = application.spec.btp.services, workload.consumed_services
        size = sum(len(value) for data in secrets.values() for value in data.values())
        return await threads.run_if_large(size, lambda: vcap.variable(services, consumes, secrets))

    async def create(
        self,
        owner: Kind,
        prefix: str,
        application: CAPApplication,
        workload: Workload,
        text: str,
        distinction: str = "",
        *,
        lost: str = "",
    ) -> str:
        """Create a Secret with VCAP_SERVICES, and return its name. A `distinction` is for one that replaces another.

        `lost` is the name of a Secret that pods refer to and that is absent: it is created again, and counts as
        outdated.
        """
        namespace = owner.metadata.namespace
        name = lost or secret_name(owner, prefix, distinction)
        keys = consumed(application, workload, namespace)
        versions = UNKNOWN_VERSIONS if lost else versions_of({key: self.bindings.version_read(key) for key in keys})
        body = secret_body(owner, prefix, name, text, versions)
        made = await conditional.ensure(
            self.client, metadata_of(Secret), body, lambda found: found.metadata.is_controlled_by(owner.metadata)
        )
        check_ours(owner, made.obj)
        self.cache.expect(made.obj.key, made.obj.metadata.resource_version)
        return name

    def versions_shown(self, application: CAPApplication, workload: Workload, namespace: str) -> str:
        """The binding Secrets of a workload as the cache shows them now, as `names.BINDINGS_ANNOTATION` has them.

        Empty where one of them is absent.
        """
        shown = {key: self.bindings.version_shown(key) for key in consumed(application, workload, namespace)}
        return versions_of(shown) if all(shown.values()) else ""


@dataclass(frozen=True, slots=True)
class Credentials:
    """VCAP_SERVICES of a workload, and the versions of the binding Secrets that it is made of."""

    text: str = field(repr=False)
    versions: str
    values: tuple[str, ...] = field(default=(), repr=False)
    """Of the binding Secrets: the secret words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadCredentials:
    """The credentials of the services that workloads consume, from binding Secrets at these versions."""

    namespace: str
    services: tuple[ServiceInfo, ...]
    """Those that are consumed, in the order of the application."""
    versions: tuple[tuple[ObjectKey, str], ...]
    """An empty version is not known, because the Secrets are not watched."""
    occasion: str
    """What they are for; empty if all versions are known. They are read once for each occasion."""
    bindings: BindingSecrets = field(compare=False, repr=False)

    @property
    def tenant(self) -> str:
        """As `Load.tenant`."""
        return self.namespace

    @property
    def about(self) -> str:
        """As `Load.about`."""
        return f"the credentials of services in namespace {self.namespace}"

    async def fetch(self, client: Client) -> Credentials | CredentialsUnusable:
        """As `Load.fetch`. What is unusable stays so until a Secret has another version."""
        try:
            secrets = {key.name: await self.bindings.read(key) for key, _ in self.versions}
        except CredentialsUnusable as absent:
            raise Refused(str(absent)) from absent
        read = {key: self.bindings.version_read(key) for key, _ in self.versions}
        size = sum(len(value) for data in secrets.values() for value in data.values())
        consumes = [service.name for service in self.services]
        try:
            text = await threads.run_if_large(size, lambda: vcap.variable(self.services, consumes, secrets))
        except CredentialsUnusable as error:
            if self.occasion:  # no version shows when that is put right
                raise Refused(str(error)) from error
            return error
        values = [value.decode("utf-8", "replace") for data in secrets.values() for value in data.values()]
        return Credentials(text, versions_of(read), tuple(values))

    def size(self, value: Credentials | CredentialsUnusable) -> int:
        """As `Load.size`."""
        return sum(map(len, (value.text, *value.values))) if isinstance(value, Credentials) else len(str(value))

    def words(self, value: Credentials | CredentialsUnusable) -> Iterable[str]:
        """As `Confidential.words`."""
        return value.values if isinstance(value, Credentials) else ()


def absent(key: ObjectKey) -> str:
    """What to do about a binding Secret that does not exist."""
    return f"Secret {key} does not exist: create the service binding that writes it"


def versions_of(versions: Mapping[ObjectKey, str]) -> str:
    """The versions of binding Secrets, as `names.BINDINGS_ANNOTATION` has them."""
    return names.sha1(*(f"{key}={version};" for key, version in versions.items()))


def secret_body(owner: Kind, prefix: str, name: str, text: str, versions: str) -> JsonObject:
    """A Secret with VCAP_SERVICES for a workload of `owner`."""
    return {
        "metadata": {
            "name": name,
            "namespace": owner.metadata.namespace,
            "labels": {names.SECRET_OWNER_HASH_LABEL: mark_of(owner, prefix)},
            "annotations": {names.BINDINGS_ANNOTATION: versions},
            "ownerReferences": [msgspec.to_builtins(owner_reference(owner))],
        },
        "data": {vcap.VARIABLE: base64.b64encode(text.encode()).decode()},
    }


def usable(owner: Kind, secrets: Iterable[PartialObjectMetadata]) -> Sequence[PartialObjectMetadata]:
    """Those of the Secrets with a mark that a workload of `owner` may read, the newest first."""
    ours = [each for each in secrets if each.metadata.is_controlled_by(owner.metadata)]
    current = [each for each in ours if not each.metadata.is_terminating]
    return sorted(current, key=lambda secret: int(secret.metadata.resource_version or 0), reverse=True)


def check_ours(owner: Kind, secret: PartialObjectMetadata) -> None:
    """Raise SecretInTheWay if the Secret with a name of ours is not of use for `owner`."""
    if not secret.metadata.is_controlled_by(owner.metadata):
        raise SecretInTheWay(f"Secret {secret.key} exists and does not belong to {owner.ref}. Delete or rename it")
    if secret.metadata.is_terminating:
        raise SecretEnding(f"Secret {secret.key} is being deleted")


def mark_of(owner: Kind, prefix: str) -> str:
    """The value of the label by which the Secret for a workload of `owner` is found."""
    return names.sha1(owner.metadata.namespace, owner.metadata.name, prefix)


def secret_name(owner: Kind, prefix: str, distinction: str = "") -> str:
    """The name of the Secret for a workload of `owner`; a `distinction` is for one that replaces another.

    An owner that comes back under its name has Secrets of other names: the former ones may be there for a while.
    """
    suffix = names.sha1(mark_of(owner, prefix), owner.metadata.uid, distinction)
    return f"{prefix[:_LONGEST_PREFIX]}-{suffix[:5]}"


def is_named_for(name: str, prefix: str) -> bool:
    """Whether a Secret may be one for a workload: its name is like ours, or generated, as with the original."""
    generated = f"{prefix}-"[:_GENERATED_PREFIX]
    begins = next((each for each in (f"{prefix[:_LONGEST_PREFIX]}-", generated) if name.startswith(each)), None)
    return begins is not None and re.fullmatch(_SUFFIX, name.removeprefix(begins)) is not None


def consumed(application: CAPApplication, workload: Workload, namespace: str) -> Sequence[ObjectKey]:
    """The binding Secrets of the services that a workload consumes, by name."""
    services = application.spec.btp.services
    names_used = {*workload.consumed_services}
    return sorted({ObjectKey(namespace, each.secret) for each in services if each.name in names_used})
