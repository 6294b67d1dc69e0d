"""Mandatory modules as passes: what a Kyma gets of them, and what their ModuleReleaseMetas and ModuleTemplates need.

A Kyma gets the Manifest of each mandatory module, whatever its user asks for, and without a look at its cluster. They
are not in the status of the Kyma. Neither earlier versions nor maintenance windows hold them up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, cast

from stellwerk.apply.fields.compare import compare
from stellwerk.delivery.step_rights import Use
from stellwerk.kube.types.errors import StatusError
from stellwerk.kube.types.model import JsonObject, plain_json
from stellwerk.kube.types.object_meta import ObjectMeta, Record
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate
from stellwerk.operators.kyma.collections import (
    KYMAS,
    MANIFESTS,
    MANIFESTS_OF_KYMA,
    METAS,
    METAS_IN,
    TEMPLATES,
    TEMPLATES_IN,
)
from stellwerk.operators.kyma.mandatory import removal
from stellwerk.operators.kyma.mandatory.modules import (
    MandatoryModule,
    MandatoryTemplateMissing,
    is_served,
    mandatory_modules,
)
from stellwerk.operators.kyma.module.resolution import (
    Component,
    Offers,
    manifest_name,
    manifest_of,
    release_of,
    unusable_name,
)
from stellwerk.render.errors import SourceError
from stellwerk.runtime.control.step import Apply, Delete, Failure, Patch, RemoveFinalizer, Step, Wait, Write
from stellwerk.runtime.reading.known import Absent, NotKnown, Unknown
from stellwerk.runtime.reading.questions import Collection
from stellwerk.runtime.reading.view import View
from stellwerk.runtime.reconciler import Retry

AnyStep: TypeAlias = Step[Record]

USES = (
    Use(KYMAS, "no Kyma gets mandatory modules"),
    Use(MANIFESTS, "no Kyma gets a mandatory module, or loses one", (Apply, Delete)),
    Use(METAS, "no mandatory module is held until its Manifests are gone", (Patch, RemoveFinalizer)),
    Use(TEMPLATES, "no mandatory module is held until its Manifests are gone", (Patch, RemoveFinalizer)),
)
"""What passes ask about and steps write, for the rights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MandatorySettings:
    """What the process is started with, as far as mandatory modules depend on it."""

    offers: Callable[[View], Offers]
    """Where descriptors come from, with the view of the pass."""


class _NoDescriptor(Exception):
    """A mandatory module has no descriptor that can be used."""


def decide(kyma: Kyma, view: View) -> AnyStep:
    """What a Kyma gets of the mandatory modules. Raises NotKnown."""
    if not is_served(kyma):
        return Step()
    namespace, offers = kyma.metadata.namespace, view.setting(MandatorySettings).offers(view)
    listing = view.by(MANIFESTS_OF_KYMA, str(kyma.key), as_applied)
    seen = {each.metadata.name: each for each in listing.values}
    hidden = {each.key.name for each in listing.unknown}
    try:
        modules = mandatory_modules(view.all(METAS_IN, namespace), view.all(TEMPLATES_IN, namespace))
        bodies = [_body(kyma, module, _component(module, offers), offers) for module in modules]
    except (MandatoryTemplateMissing, _NoDescriptor) as error:
        return Step(failure=Failure(message=str(error), retry=Retry.WHEN_CHANGED))
    due = [
        body
        for module, body in zip(modules, bodies, strict=True)
        if _name(body) not in hidden and _is_due(kyma, module, body, seen.get(_name(body)), offers, view)
    ]
    writes: tuple[Write, ...] = tuple(Apply(MANIFESTS, body, labels.FIELD_MANAGER, _refused) for body in due)
    return Step(writes=writes, is_independent=True)


def as_applied(manifest: Manifest) -> Manifest:
    """An aspect: what is written of a Manifest."""
    metadata = manifest.metadata
    named = ObjectMeta(
        name=metadata.name, namespace=metadata.namespace, labels=metadata.labels, annotations=metadata.annotations
    )
    return Manifest(metadata=named, spec=manifest.spec)


def _component(module: MandatoryModule, offers: Offers) -> Component:
    try:
        name = module.meta.spec.ocm_component_name if module.meta is not None else ""
        found = offers.component(module.template, name)
    except SourceError as error:
        raise _NoDescriptor(f"failed to get descriptor of mandatory module {module.name}: {error}") from error
    match found:
        case Unknown(why):
            raise NotKnown(f"the descriptor of {module.template.ref}", why)
        case Absent():
            raise _NoDescriptor(
                f"failed to get descriptor of mandatory module {module.name}: {module.template.ref} has none, and no "
                f"registry is configured; see it: kubectl get mt -n {module.template.key.namespace} "
                f"{module.template.key.name} -o yaml"
            )
        case _:
            return found.value


def _body(kyma: Kyma, module: MandatoryModule, component: Component, offers: Offers) -> JsonObject:
    name = manifest_name(kyma.metadata.name, component.name, module.name)
    if why := unusable_name(kyma, name, module.name, module.template, component):
        raise _NoDescriptor(why)
    marks = {labels.MANDATORY_MODULE_LABEL: "true"}
    return manifest_of(kyma, name, module.name, module.template, component, marks, sync_namespace=offers.sync_namespace)


def _name(body: JsonObject) -> str:
    return str(cast("JsonObject", body["metadata"])["name"])


def _is_due(
    kyma: Kyma, module: MandatoryModule, body: JsonObject, seen: Manifest | None, offers: Offers, view: View
) -> bool:
    if _is_as(body, seen):
        return False
    is_upgrade = seen is not None and seen.spec.version != module.version
    return not is_upgrade or module.meta is None or offers.is_delay_over(kyma, release_of(module.meta), view)


def _is_as(body: JsonObject, seen: Manifest | None) -> bool:
    """Whether a Manifest has all that is wanted; what others add to it stays."""
    if seen is None:
        return False
    metadata = cast("JsonObject", body["metadata"])
    wanted: JsonObject = {
        "metadata": {name: metadata[name] for name in ("labels", "annotations")},
        "spec": body["spec"],
    }
    return not compare(wanted, plain_json(seen)).differences


def _refused(message: str, _: StatusError | None) -> Failure:
    return Failure(message=message)


@dataclass(slots=True)
class MandatoryLogic:
    """What a Kyma gets of the mandatory modules, for the engine. The status of the Kyma is left alone."""

    collection: Collection[Kyma] = KYMAS

    def decide(self, kyma: Kyma, view: View) -> AnyStep:
        """As `Logic.decide`."""
        return decide(kyma, view)

    def unknown(self, kyma: Kyma, view: View, missing: NotKnown) -> AnyStep:
        """As `Logic.unknown`."""
        return Step(waits=(Wait(str(missing)),))

    def failed(self, kyma: Kyma, failure: Failure) -> None:
        """As `Logic.failed`."""

    def unexpected(self, kyma: Kyma, message: str) -> None:
        """As `Logic.unexpected`."""


@dataclass(slots=True)
class MetaLogic:
    """A ModuleReleaseMeta, for the engine. It has no status."""

    collection: Collection[ModuleReleaseMeta] = METAS

    def decide(self, meta: ModuleReleaseMeta, view: View) -> AnyStep:
        """As `Logic.decide`."""
        return removal.decide_meta(meta, view)

    def unknown(self, meta: ModuleReleaseMeta, view: View, missing: NotKnown) -> AnyStep:
        """As `Logic.unknown`."""
        return Step(waits=(Wait(str(missing)),))

    def failed(self, meta: ModuleReleaseMeta, failure: Failure) -> None:
        """As `Logic.failed`."""

    def unexpected(self, meta: ModuleReleaseMeta, message: str) -> None:
        """As `Logic.unexpected`."""


@dataclass(slots=True)
class TemplateLogic:
    """A ModuleTemplate, for the engine. It has no status."""

    collection: Collection[ModuleTemplate] = TEMPLATES

    def decide(self, template: ModuleTemplate, view: View) -> AnyStep:
        """As `Logic.decide`."""
        return removal.decide_template(template, view)

    def unknown(self, template: ModuleTemplate, view: View, missing: NotKnown) -> AnyStep:
        """As `Logic.unknown`."""
        return Step(waits=(Wait(str(missing)),))

    def failed(self, template: ModuleTemplate, failure: Failure) -> None:
        """As `Logic.failed`."""

    def unexpected(self, template: ModuleTemplate, message: str) -> None:
        """As `Logic.unexpected`."""
