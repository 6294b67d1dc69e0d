"""Which version and kinds of the module were applied, and what an older version left behind (pure).

A release lists what its predecessor had and it has not; an update that skips a release skips its list. So the kinds of
the last two versions are recorded in the ConfigMap `btp-manager-versions`, in the form that releases of 2023 wrote, and
objects of these kinds that carry our label and another version are deleted after a new version is ready.

Two kinds of object are never deleted this way while users have instances: the CustomResourceDefinitions of service
instances and bindings, because their end is the end of every service in the cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec
import yaml

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.apply.errors import UnreadableManifest
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.objects.manifests import read_value
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.kube.types.model import HasMetadata, JsonObject, JsonValue
from stellwerk.kube.yaml import TextDumper
from stellwerk.operators.btp import api
from stellwerk.operators.btp.errors import DamagedRecord

CURRENT_VERSION, CURRENT_KINDS = "currentChartVersion", "currentGvks"
OLD_VERSION, OLD_KINDS = "oldChartVersion", "oldGvks"

CREDENTIALS_SECRET = "credentialsSecret"  # noqa: S105  # a key
"""Ours: which Secret holds the operand's credentials, as namespace and uid."""

CREDENTIALS_MOVES = "credentialsMoves"
"""Ours: to which namespaces the credentials began to move since, separated by commas. A later move may overtake one."""

USERS_DEFINITIONS = tuple(
    ObjectRef(CustomResourceDefinition.resource.gvk, ObjectKey("", kind.resource.group_resource))
    for kind in (ServiceInstance, ServiceBinding)
)
"""What must outlive every version change while users have instances or bindings."""


@dataclass(frozen=True, slots=True)
class CredentialsSecret:
    """The Secret that we have written for the operand: a tenant may give the same name and labels to another one."""

    namespace: str
    uid: str

    @classmethod
    def of(cls, secret: HasMetadata) -> CredentialsSecret:
        """From the Secret itself."""
        return cls(secret.metadata.namespace, secret.metadata.uid)

    @classmethod
    def parse(cls, text: str) -> CredentialsSecret | None:
        """From the record; None where it does not contain both."""
        namespace, _, uid = text.partition("/")
        return cls(namespace, uid) if namespace and uid else None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.uid}"


def parse_moves(text: str) -> tuple[str, ...]:
    """The namespaces to which a move of the credentials began, from the record."""
    return tuple(namespace for namespace in text.split(",") if namespace)


def holds_credentials(secret: HasMetadata, recorded: CredentialsSecret | None, moves: Collection[str] = ()) -> bool:
    """Whether a Secret is the operand's credentials Secret as an installation has left it.

    Where there is no record yet, a former release or the original may have written it, and name and label decide. So
    they do in a namespace of `moves`: the move began before the Secret had a uid.
    """
    metadata = secret.metadata
    if metadata.name != api.OPERAND_SECRET_NAME or metadata.labels.get(api.MANAGED_BY_LABEL) != api.OPERATOR_NAME:
        return False
    return recorded is None or recorded == CredentialsSecret.of(secret) or metadata.namespace in moves


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRecord:
    """The version that is applied and the one before it; the same twice after the first installation."""

    current_version: str
    current_kinds: tuple[GroupVersionKind, ...]
    old_version: str
    old_kinds: tuple[GroupVersionKind, ...]
    credentials: CredentialsSecret | None = None
    """None in the records of former releases."""
    moves: tuple[str, ...] = ()
    """Namespaces to which a move of the credentials began and, as far as is recorded, did not end."""

    @property
    def kinds(self) -> tuple[GroupVersionKind, ...]:
        """Where leftovers may be."""
        return tuple(dict.fromkeys((*self.current_kinds, *self.old_kinds)))

    def data(self) -> dict[str, str]:
        """The ConfigMap's data."""
        credentials = {CREDENTIALS_SECRET: str(self.credentials)} if self.credentials else {}
        moves = {CREDENTIALS_MOVES: ",".join(self.moves)} if self.moves else {}
        return {
            CURRENT_VERSION: self.current_version,
            CURRENT_KINDS: format_gvks(self.current_kinds),
            OLD_VERSION: self.old_version,
            OLD_KINDS: format_gvks(self.old_kinds),
            **credentials,
            **moves,
        }


def parse(data: Mapping[str, str]) -> VersionRecord:
    """The record in a ConfigMap's data. Raises `DamagedRecord`."""
    missing = [key for key in (CURRENT_VERSION, CURRENT_KINDS, OLD_VERSION, OLD_KINDS) if not data.get(key)]
    if missing:
        raise DamagedRecord(f"has no {', '.join(missing)}")
    return VersionRecord(
        current_version=data[CURRENT_VERSION],
        current_kinds=_kinds(data, CURRENT_KINDS),
        old_version=data[OLD_VERSION],
        old_kinds=_kinds(data, OLD_KINDS),
        credentials=CredentialsSecret.parse(data.get(CREDENTIALS_SECRET, "")),
        moves=parse_moves(data.get(CREDENTIALS_MOVES, "")),
    )


def _kinds(data: Mapping[str, str], key: str) -> tuple[GroupVersionKind, ...]:
    try:
        return parse_gvks(data[key])
    except UnreadableManifest as error:
        raise DamagedRecord(f"{key}: {error.why}") from error


# ---- the list of kinds


def format_gvks(gvks: Iterable[GroupVersionKind]) -> str:
    """Kinds as the YAML list that BTP Manager's record of versions holds: group, version, kind; each kind once."""
    rows = [gvk._asdict() for gvk in dict.fromkeys(gvks)]
    return str(yaml.dump(rows, Dumper=TextDumper, sort_keys=False)) if rows else "[]\n"


def parse_gvks(text: str) -> tuple[GroupVersionKind, ...]:
    """Kinds from such a list, each once, in order. Raises `UnreadableManifest` where the text is none."""
    listed = read_value(text)
    if listed is not None and not isinstance(listed, list):
        raise UnreadableManifest("expected a list of group, version and kind")
    return tuple(dict.fromkeys(_gvk(row, number) for number, row in enumerate(listed or [], start=1)))


def _gvk(row: JsonValue, number: int) -> GroupVersionKind:
    try:
        found = msgspec.convert(row, _Row)
    except msgspec.ValidationError as error:
        raise UnreadableManifest(f"entry {number} does not have group, version and kind as text") from error
    if not found.version or not found.kind:
        raise UnreadableManifest(f"entry {number} lacks its version or kind")
    return GroupVersionKind(found.group, found.version, found.kind)


class _Row(msgspec.Struct):
    version: str
    kind: str
    group: str = ""


# ---- versions


def after_apply(record: VersionRecord | None, version: str, kinds: Iterable[GroupVersionKind]) -> VersionRecord:
    """The record once a version is applied. Under an unchanged version no kind is forgotten."""
    applied = tuple(kinds)
    if record is None:
        return VersionRecord(current_version=version, current_kinds=applied, old_version=version, old_kinds=applied)
    if record.current_version == version:
        known = tuple(dict.fromkeys((*record.current_kinds, *applied)))
        return replace(record, current_kinds=known)
    return VersionRecord(
        current_version=version,
        current_kinds=applied,
        old_version=record.current_version,
        old_kinds=record.current_kinds,
        credentials=record.credentials,
        moves=record.moves,
    )


def before_apply(record: VersionRecord | None, version: str, kinds: Iterable[GroupVersionKind]) -> VersionRecord:
    """The record before a version is applied that brings these kinds.

    Kinds that nothing else would read are recorded before the first object of them exists: an upgrade that fails
    half-way, and is overtaken by the next, would lose them.
    """
    if record is None:
        return after_apply(None, version, kinds)
    return replace(record, current_kinds=tuple(dict.fromkeys((*record.current_kinds, *kinds))))


def config_map(record: VersionRecord, namespace: str) -> JsonObject:
    """The ConfigMap that keeps the record. It is ours, so it goes with the module; it has no version to be old by."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": api.VERSIONS_NAME,
            "namespace": namespace,
            "labels": {api.MANAGED_BY_LABEL: api.OPERATOR_NAME, api.MODULE_LABEL: api.MODULE_NAME},
        },
        "data": {**record.data()},
    }


def is_stale(labels: Mapping[str, str], version: str) -> bool:
    """Whether an object with these labels is ours, and of another version; one without a version never is."""
    versions = [labels[name] for name in (api.VERSION_LABEL, api.RECOMMENDED_VERSION_LABEL) if name in labels]
    return labels.get(api.MANAGED_BY_LABEL) == api.OPERATOR_NAME and bool(versions) and version not in versions


def stale(
    live: Mapping[Address, Live], wanted: Iterable[Address], version: str, *, spared: Collection[ObjectRef] = ()
) -> dict[Address, Live]:
    """The objects that another version left behind.

    A kind in the record is only a place to look; the labels of each object decide. `spared` stays whatever its labels
    are: a CustomResourceDefinition that users still have instances of.
    """
    kept = {(address.resource.group, address.resource.kind, address.key) for address in wanted}
    return {
        address: found
        for address, found in live.items()
        if is_stale(found.metadata.labels, version)
        and (address.resource.group, address.resource.kind, address.key) not in kept
        and address.ref not in spared
    }


def spared(*, has_users_objects: bool) -> tuple[ObjectRef, ...]:
    """What must not be deleted although it is stale."""
    return USERS_DEFINITIONS if has_users_objects else ()
