"""The modules that a remote cluster shows its user: which ModuleTemplates and ModuleReleaseMetas it has.

The labels of the Kyma in the control plane decide. A ModuleReleaseMeta keeps only the channels whose template the Kyma
may see, and a template is there if such a channel leads to it. A template with a channel of its own, of a module
without a ModuleReleaseMeta, is there if it may be seen.

What the user has created in the remote cluster is recognized by its field managers, and stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeAlias, cast

import msgspec

from stellwerk.apply.fields.compare import compare
from stellwerk.apply.objects.desired import Address, Desired
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, JsonObject, plain_json
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.kyma.skr import copied_annotations

Entry: TypeAlias = ModuleTemplate | ModuleReleaseMeta


@dataclass(frozen=True, slots=True)
class Catalog:
    """What a remote cluster should have, as it is in the control plane; the channels of `metas` are filtered."""

    templates: tuple[ModuleTemplate, ...] = ()
    metas: tuple[ModuleReleaseMeta, ...] = ()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All of it."""
        return (*self.templates, *self.metas)


def is_visible(template: ModuleTemplate, kyma: Kyma) -> bool:
    """Whether the labels of a Kyma let its user see a template. No user enables a mandatory module."""
    if template.spec.mandatory or template.metadata.labels.get(labels.SYNC_LABEL, "").lower() == "false":
        return False
    marks = (labels.BETA_LABEL, labels.INTERNAL_LABEL)
    return all(is_marked(kyma, each) for each in marks if is_marked(template, each))


def catalog_of(
    kyma: Kyma,
    templates: Iterable[ModuleTemplate],
    metas: Iterable[ModuleReleaseMeta],
    *,
    is_offered: Callable[[str, ModuleReleaseMeta | None], bool],
) -> Catalog:
    """The catalog of a Kyma, in the order of names.

    `is_offered`: whether it may have a module, of which there is a ModuleReleaseMeta or not.
    """
    every = {each.metadata.name: each for each in metas}
    visible = sorted((each for each in templates if is_visible(each, kyma)), key=attrgetter("key"))
    names = {each.metadata.name for each in visible}
    offered = [every[name] for name in sorted(every) if is_offered(name, every[name])]
    kept = [each for each in (_with_visible_channels(meta, names) for meta in offered) if each.spec.channels]
    led_to = {(meta.spec.module_name, channel.version) for meta in kept for channel in meta.spec.channels}

    def is_kept(template: ModuleTemplate) -> bool:
        module = module_of(template)
        if module in every:
            return (module, template.spec.version) in led_to
        return _has_channel(template) and is_offered(module, None)

    return Catalog(tuple(filter(is_kept, visible)), tuple(kept))


def module_of(template: ModuleTemplate) -> str:
    """The module of a template; older templates name it by a label."""
    return template.spec.module_name or template.metadata.labels.get(labels.MODULE_NAME_LABEL, "")


def due(catalog: Catalog, namespace: str, live: Iterable[Entry]) -> tuple[tuple[Desired, ...], tuple[Entry, ...]]:
    """What has to be written, and what has to be deleted, in a remote cluster with these objects in all namespaces.

    `namespace`: where the catalog is there.
    """
    wanted = {_address(each, namespace): each for each in catalog.entries}
    found = {_address(each, each.metadata.namespace): each for each in live}
    written = [each for address, each in wanted.items() if not _is_as(each, found.get(address))]
    surplus = [found[address] for address in sorted(found, key=str) if address not in wanted]
    deleted = tuple(each for each in surplus if is_ours(each) and not each.metadata.is_terminating)
    return tuple(copied(each, namespace) for each in written), deleted


def copied(entry: Entry, namespace: str) -> Desired:
    """An entry as a namespace of a remote cluster gets it."""
    metadata: JsonObject = {"labels": {**entry.metadata.labels, labels.MANAGED_BY_LABEL: labels.KYMA}}
    if annotations := copied_annotations(entry.metadata):
        metadata["annotations"] = annotations
    return Desired.named(
        entry.resource, ObjectKey(namespace, entry.metadata.name), metadata, spec=plain_json(entry.spec)
    )


def is_marked(obj: HasMetadata, label: str) -> bool:
    """Whether a label of an object is true, in any case."""
    return obj.metadata.labels.get(label, "").lower() == "true"


def _with_visible_channels(meta: ModuleReleaseMeta, names: set[str]) -> ModuleReleaseMeta:
    """The channels whose template is among `names`; a mandatory module has none."""
    channels = () if meta.spec.mandatory is not None else meta.spec.channels
    shown = tuple(each for each in channels if f"{meta.spec.module_name}-{each.version}" in names)
    return msgspec.structs.replace(meta, spec=msgspec.structs.replace(meta.spec, channels=shown))


def _has_channel(template: ModuleTemplate) -> bool:
    return template.spec.channel.lower() not in ("", labels.NO_CHANNEL)


def _address(entry: Entry, namespace: str) -> Address:
    return Address(entry.resource, ObjectKey(namespace, entry.metadata.name))


def _is_as(entry: Entry, live: Entry | None) -> bool:
    """Whether an object has all that is wanted, and was written by us. What others add to lists of it stays.

    A channel too many is ours if no other client has written the object.
    """
    if live is None or not is_ours(live):
        return False
    marks = {**entry.metadata.labels, labels.MANAGED_BY_LABEL: labels.KYMA}
    if not (marks.items() <= live.metadata.labels.items()):
        return False
    if not (copied_annotations(entry.metadata).items() <= live.metadata.annotations.items()):
        return False
    if live.spec == entry.spec:
        return True
    if isinstance(live, ModuleReleaseMeta) and isinstance(entry, ModuleReleaseMeta):
        surplus = {each.channel for each in live.spec.channels} - {each.channel for each in entry.spec.channels}
        if surplus and all(each.manager == labels.CATALOG_MANAGER for each in live.metadata.managers):
            return False
    return not compare(_by_channel(plain_json(entry.spec)), _by_channel(plain_json(live.spec))).differences


def is_ours(live: Entry) -> bool:
    """Whether this operator has written an object of a remote cluster."""
    return any(each.manager == labels.CATALOG_MANAGER for each in live.metadata.managers)


def _by_channel(spec: JsonObject) -> JsonObject:
    """The specification with its channels as a mapping: API servers merge that list by the name of the channel."""
    channels = cast("list[JsonObject]", spec.get("channels") or [])
    return {**spec, "channels": {str(each["channel"]): each["version"] for each in channels}}
