"""The modules of a Kyma: which version each gets, what is done with its Manifest, and how it is shown. Pure.

    resolve(kyma, spec, offers, view)   the plan of each module, by name

A module whose offer cannot be read keeps its status and its Manifest: what is not known is not absent. A Manifest is
deleted only if its module was removed from the specification, or is not allowed any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import blake2b
from types import MappingProxyType
from typing import ClassVar, NamedTuple, TypeVar, cast

import msgspec

from stellwerk.apply.objects.name_validation import complaints, is_subdomain
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, owner_reference, plain_json
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.types.semantic_version import precedence
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma, KymaSpec, Module, ModuleStatus, TrackedMetadata, TrackedObject
from stellwerk.operators.kyma.api_manifest import (
    CustomResourcePolicy,
    InstallInfo,
    Manifest,
    ManifestSpec,
    ManifestStatus,
)
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleReleaseMetaSpec, ModuleTemplate
from stellwerk.operators.kyma.api_status import LastOperation, State
from stellwerk.operators.kyma.collections import MANIFESTS_OF_KYMA, METAS, TEMPLATES, TEMPLATES_IN
from stellwerk.operators.kyma.fleet.rollout import has_turn, waiting_message
from stellwerk.operators.kyma.kyma.catalog import is_marked, module_of
from stellwerk.operators.kyma.mandatory.modules import version_of
from stellwerk.operators.kyma.manifest.status import state_of
from stellwerk.operators.kyma.module.windows import NoWindow, Policy
from stellwerk.render.errors import SourceError
from stellwerk.runtime.clock import Clock, SystemClock
from stellwerk.runtime.reading.known import Absent, Known, NotKnown, Present, Unknown
from stellwerk.runtime.reading.view import View

MOST_NAME = 62
"""Characters of the name of a Manifest."""
A = TypeVar("A")
_UNWELL = frozenset((State.Error, State.Warning, State.Deleting))
EMPTY: Mapping[str, str] = MappingProxyType({})
_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193


class Component(NamedTuple):
    """What the descriptor of a module has: the content of its Manifest."""

    name: str
    version: str
    install: InstallInfo
    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """What decides about the modules of each Kyma: the settings of the process, and the source of descriptors."""

    component: Callable[[ModuleTemplate, str], Known[Component]]
    """The component of a template; the text is the OCM name of the ModuleReleaseMeta. Raises SourceError."""
    windows: Policy | None = None
    """None: there is no policy file, or it cannot be used."""
    least_window: timedelta = timedelta(minutes=20)
    restricted: frozenset[str] = frozenset()
    """Modules that only Kymas get which the selector of the ModuleReleaseMeta matches."""
    sync_namespace: str = labels.SKR_NAMESPACE
    limits_rollouts: bool = False
    """Whether a Kyma needs a turn to change the version of a module."""
    longest_delay: timedelta = timedelta(0)
    """Within which the Kymas take over a new version of a channel, each at a time of its own."""
    clock: Clock = field(default_factory=SystemClock, compare=False)

    def delay(self, kyma: Kyma, meta: Release) -> timedelta:
        """That of a Kyma for the content of a ModuleReleaseMeta: always the same."""
        text = f"{kyma.metadata.uid}/{meta.uid}/{meta.generation}".encode()
        return self.longest_delay * (int.from_bytes(blake2b(text, digest_size=4).digest()) / 2**32)

    def is_delay_over(self, kyma: Kyma, meta: Release, view: View) -> bool:
        """Whether a Kyma may take over a new version now. Raises NotKnown."""
        if not self.longest_delay:
            return True
        began = view.load(FirstSeen(meta, self.clock))
        if isinstance(began, Unknown):
            raise NotKnown(f"the age of version {meta.generation} of the ModuleReleaseMeta", began.why)
        return isinstance(began, Absent) or view.is_past(began.value + self.delay(kyma, meta))


class Release(NamedTuple):
    """A content of a ModuleReleaseMeta."""

    uid: str
    generation: int


def release_of(meta: ModuleReleaseMeta) -> Release:
    """An aspect: which content it has."""
    return Release(meta.metadata.uid, meta.metadata.generation)


@dataclass(frozen=True, slots=True)
class FirstSeen:
    """When this process was first asked about a content: no object shows when its spec has changed."""

    release: Release
    clock: Clock = field(default_factory=SystemClock, compare=False, repr=False)

    @property
    def tenant(self) -> str:
        """As `Load.tenant`."""
        return labels.KCP_NAMESPACE

    @property
    def about(self) -> str:
        """As `Load.about`."""
        return f"the age of generation {self.release.generation} of a ModuleReleaseMeta"

    async def fetch(self, client: Client) -> datetime:
        """As `Load.fetch`, without a request."""
        return self.clock.now()

    def size(self, value: datetime) -> int:
        """As `Load.size`."""
        return 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What becomes of one module."""

    name: str
    status: ModuleStatus | None
    """None: it is not shown any more."""
    wanted: JsonObject | None = None
    """The Manifest that is to be applied. With a uid in its metadata, it changes the one that there is, or nothing."""
    removed: Manifest | None = None
    """The Manifest that is to be deleted."""


class Problem(Exception):
    """Why a module does not get what the specification asks for. Its message is that of the module."""

    state: ClassVar[State | None] = State.Error
    """None: the former one."""
    keeps = False
    """Whether the rest of a former status stays."""
    uninstalls = False
    maintenance = False


class _NoMeta(Problem):
    state, keeps = State.Warning, True


class _NotOffered(Problem):
    state = State.Warning


class _NotAllowed(Problem):
    uninstalls = True


class _Downgrade(Problem):
    state, keeps = State.Warning, True


class _WaitsForWindow(Problem):
    state, keeps, maintenance = None, True, True


class _WaitsForTurn(Problem):
    state, keeps = None, True


class _WindowNotKnown(Problem):
    keeps = True


class _Resolved(NamedTuple):
    template: ModuleTemplate
    component: Component


def manifest_name(kyma: str, component: str, module: str) -> str:
    """The name of a Manifest. Those of long names are cut, and so may be equal."""
    value = _FNV_OFFSET
    for byte in (component + module).encode():
        value = (value * _FNV_PRIME & 0xFFFFFFFF) ^ byte
    name = f"{kyma}-{component.rsplit('/', 1)[-1]}-{value}"
    return name if len(name) <= MOST_NAME else name[:MOST_NAME].rstrip("-")


def unusable_name(kyma: Kyma, name: str, module: str, template: ModuleTemplate, component: Component) -> str:
    """Why no Manifest can have this name and the labels of a module; empty if one can. A registry names components."""
    labelled: JsonObject = {labels.MODULE_NAME_LABEL: module, labels.KYMA_NAME_LABEL: kyma.metadata.name}
    wrong = [*complaints(Manifest.resource.api_version, {"labels": labelled})]
    if not is_subdomain(name):
        wrong.append(f"metadata.name {name!r} must consist of lower-case letters, digits, '-' and '.'")
    if not wrong:
        return ""
    return (
        f"module {module} of {template.ref} can have no Manifest: {'; '.join(wrong)}. Correct its name or that of its "
        f"component {component.name[:MOST_NAME]!r}: kubectl edit mrm -n {template.metadata.namespace} {module}"
    )


def is_offered(module: str, meta: ModuleReleaseMetaSpec | None, kyma: Kyma, restricted: frozenset[str]) -> bool:
    """Whether a Kyma may have a module as far as restrictions go. An empty selector matches nothing."""
    selector = meta.kyma_selector if meta is not None else None
    if selector is None:
        return module not in restricted
    is_empty = not selector.match_labels and not selector.match_expressions
    return module in restricted and not is_empty and selector.matches(kyma.metadata.labels)


def manifest_of(
    kyma: Kyma,
    name: str,
    module: str,
    template: ModuleTemplate,
    component: Component,
    marks: Mapping[str, str],
    notes: Mapping[str, str] = EMPTY,
    policy: str = CustomResourcePolicy.CreateAndDelete,
    sync_namespace: str = labels.SKR_NAMESPACE,
) -> JsonObject:
    """The Manifest of a module, as it is applied. `marks` and `notes`: further labels and annotations."""
    own = {
        labels.KYMA_NAME_LABEL: kyma.metadata.name,
        labels.MODULE_NAME_LABEL: module,
        labels.MANAGED_BY_LABEL: labels.OPERATOR_NAME,
    }
    if template.metadata.labels:
        own[labels.CONTROLLER_NAME_LABEL] = template.metadata.labels.get(labels.CONTROLLER_NAME_LABEL, "")
    named = {labels.FQDN_ANNOTATION: component.name, labels.OCM_COMPONENT_NAME_ANNOTATION: component.name}
    spec = ManifestSpec(
        install=component.install,
        version=component.version,
        localized_images=component.images,
        manager=template.spec.manager,
        resource=_default_resource(template, name, sync_namespace),
        custom_resource_policy=policy,
    )
    return {
        "apiVersion": Manifest.resource.api_version,
        "kind": Manifest.resource.kind,
        "metadata": {
            "name": name,
            "namespace": kyma.metadata.namespace,
            "labels": {**own, **marks},
            "annotations": {**named, **notes},
            "ownerReferences": [plain_json(owner_reference(kyma))],
        },
        "spec": plain_json(spec),
    }


def _default_resource(template: ModuleTemplate, name: str, namespace: str) -> JsonObject | None:
    if template.spec.data is None:
        return None
    data: JsonObject = {**template.spec.data}
    metadata = data.get("metadata")
    given: JsonObject = {**metadata} if isinstance(metadata, dict) else {}
    given["name"] = given.get("name") or name
    given["namespace"] = given.get("namespace") or namespace
    return {**data, "metadata": given}


def resolve(kyma: Kyma, spec: KymaSpec, offers: Offers, view: View) -> tuple[Plan, ...]:
    """The plans of all modules, by name. `spec`: what is followed, of both clusters.

    Raises NotKnown if the Manifests are not listed: nothing can be decided then.
    """
    return _Resolution(kyma, spec, offers, view).plans()


def as_module(manifest: Manifest) -> Manifest:
    """An aspect: what of a Manifest counts for its Kyma."""
    seen = manifest.metadata
    metadata = ObjectMeta(
        name=seen.name,
        namespace=seen.namespace,
        uid=seen.uid,
        generation=seen.generation,
        deletion_timestamp=seen.deletion_timestamp,
        labels=seen.labels,
        annotations={
            key: seen.annotations[key] for key in (labels.IS_UNMANAGED_ANNOTATION,) if key in seen.annotations
        },
    )
    spec = ManifestSpec(version=manifest.spec.version, custom_resource_policy=manifest.spec.custom_resource_policy)
    cause = cause_of(manifest)
    last = LastOperation(operation=cause) if cause else None
    return Manifest(metadata=metadata, spec=spec, status=ManifestStatus(state=state_of(manifest), last_operation=last))


def cause_of(manifest: Manifest) -> str:
    """Why a Manifest is not as it should be, or what its deletion waits for; empty while it is well."""
    last = manifest.status.last_operation
    return last.operation if last is not None and state_of(manifest) in _UNWELL else ""


def _offer(meta: ModuleReleaseMeta) -> ModuleReleaseMetaSpec:
    return meta.spec


class _Resolution:
    def __init__(self, kyma: Kyma, spec: KymaSpec, offers: Offers, view: View) -> None:
        self._kyma, self._spec, self._offers, self._view = kyma, spec, offers, view
        self._namespace = kyma.metadata.namespace
        listing = view.by(MANIFESTS_OF_KYMA, str(kyma.key), as_module)
        self._manifests = {each.metadata.name: each for each in listing.values}
        self._unreadable = {each.key.name: each.why for each in listing.unknown}
        self._former = {each.name: each for each in kyma.status.modules}

    def plans(self) -> tuple[Plan, ...]:
        wanted = {each.name: self._kept_if_unknown(each.name, self._plan, each) for each in self._spec.modules}
        removed = {
            name: self._kept_if_unknown(name, self._removal, Module(name=name, channel=former.channel))
            for name, former in self._former.items()
            if name not in wanted
        }
        return tuple(plan for _, plan in sorted({**wanted, **removed}.items()))

    def _kept_if_unknown(self, name: str, decide: Callable[[Module], Plan], module: Module) -> Plan:
        try:
            return decide(module)
        except NotKnown as error:
            unknown = ModuleStatus(name=name, channel=self._channel(module), state=State.Processing, message=str(error))
            return Plan(name=name, status=self._former.get(name, unknown))

    # ---- modules of the specification

    def _plan(self, module: Module) -> Plan:
        former, installed = self._former.get(module.name), self._installed(module.name)
        if not module.managed and former is not None and installed is None:
            return Plan(name=module.name, status=_unmanaged(former))
        try:
            found = self._resolved(module, former, installed)
            self._await_turn(module, former, found, installed)
            name, seen = self._target(module, found)
        except Problem as problem:
            status = _with_problem(module.name, self._channel(module), former, problem)
            removed = installed if problem.uninstalls and installed and not _is_leaving(installed) else None
            return Plan(name=module.name, status=status, removed=removed)
        is_due = self._is_due(module, former, found, seen)
        if is_due and former is not None and installed is not None and self._is_delayed(module, installed, found):
            state = installed.status.state
            status = msgspec.structs.replace(former, state=state, message=cause_of(installed), maintenance=False)
            return Plan(name=module.name, status=status)
        body = self._manifest(module, name, found)
        status = self._shown(module, found, body, seen)
        if is_due and seen is not None and not seen.metadata.is_terminating:  # its state is about the former spec
            status = msgspec.structs.replace(status, state=State.Processing, message="")
        return Plan(
            name=module.name,
            status=status if module.managed else _unmanaged(status),
            wanted=body if is_due else None,
        )

    def _installed(self, module: str) -> Manifest | None:
        """The Manifest of a module. Raises NotKnown if it may be one that cannot be read."""
        former = self._former.get(module)
        reference = former.manifest.metadata.name if former is not None and former.manifest is not None else ""
        if reference in self._unreadable:
            raise NotKnown(f"Manifest {self._namespace}/{reference}", self._unreadable[reference])
        own = (each for each in self._manifests.values() if _module_of(each) == module)
        return next((each for each in own if labels.MANDATORY_MODULE_LABEL not in each.metadata.labels), None)

    def _target(self, module: Module, found: _Resolved) -> tuple[str, Manifest | None]:
        """The name of the Manifest, and the one that has it now."""
        name = manifest_name(self._kyma.metadata.name, found.component.name, module.name)
        if why := unusable_name(self._kyma, name, module.name, found.template, found.component):
            raise Problem(why)
        if name in self._unreadable:
            raise NotKnown(f"Manifest {self._namespace}/{name}", self._unreadable[name])
        seen = self._manifests.get(name)
        if seen is not None and _module_of(seen) not in ("", module.name):
            raise Problem(
                f"Manifest {self._namespace}/{name} is that of the module {_module_of(seen)!r}, whose name is cut "
                f"to the same one. Remove one of both modules, or use a Kyma with a shorter name"
            )
        return name, seen

    def _is_due(self, module: Module, former: ModuleStatus | None, found: _Resolved, seen: Manifest | None) -> bool:
        if seen is None:
            return module.managed
        if labels.IS_UNMANAGED_ANNOTATION in seen.metadata.annotations:
            return False
        if not module.managed or seen.spec.version != found.component.version:
            return True
        if seen.metadata.labels.get(labels.CHANNEL_LABEL) != self._channel(module):
            return True
        if former is None:
            return False
        template = former.template  # after an error there is none, and so not known which one was applied
        return template is None or template.metadata.generation != found.template.metadata.generation

    def _is_delayed(self, module: Module, installed: Manifest, found: _Resolved) -> bool:
        """Whether an upgrade that no user has asked for waits, so that not all clusters have it at once."""
        if not module.managed or _is_leaving(installed) or installed.spec.version == found.component.version:
            return False
        if installed.metadata.labels.get(labels.CHANNEL_LABEL) != self._channel(module):
            return False
        meta = _known(self._view.get(METAS, ObjectKey(self._namespace, module.name), release_of), module.name)
        return meta is not None and not self._offers.is_delay_over(self._kyma, meta, self._view)

    # ---- which version

    def _channel(self, module: Module) -> str:
        return module.channel or self._spec.channel or labels.DEFAULT_CHANNEL

    def _resolved(self, module: Module, former: ModuleStatus | None, installed: Manifest | None) -> _Resolved:
        if module.channel.lower() == labels.NO_CHANNEL:
            raise Problem(
                f'invalid configuration in Kyma spec.modules for module {module.name}: Channel "none" is not allowed'
            )
        meta = _known(self._view.get(METAS, ObjectKey(self._namespace, module.name), _offer), module.name)
        template = self._former_form(module) if meta is None else self._offered(module, meta)
        self._await_window(template, former)
        self._admit(module, meta, template)
        component = self._component(template, meta)
        self._refuse_downgrade(module, former, installed, component.version)
        return _Resolved(template, component)

    def _offered(self, module: Module, meta: ModuleReleaseMetaSpec) -> ModuleTemplate:
        channel = self._channel(module)
        if meta.mandatory is not None:
            version = meta.mandatory.version
        elif not meta.channels:
            raise Problem(f"no channels found for module: {module.name}")
        else:
            version = next((each.version for each in meta.channels if each.channel == channel), "")
            if not version:
                raise Problem(f"no versions found for channel: {channel} in module {module.name}")
        name = f"{module.name}-{version}"
        template = _known(self._view.get(TEMPLATES, ObjectKey(self._namespace, name)), module.name)
        if template is None:
            raise Problem(
                f"failed to get module template: ModuleTemplate {self._namespace}/{name} does not exist. Create it, or "
                f"correct the ModuleReleaseMeta: kubectl edit mrm -n {self._namespace} {module.name}"
            )
        if meta.mandatory is not None:
            raise self._hidden(module)
        return template

    def _former_form(self, module: Module) -> ModuleTemplate:
        """The template of a module without a ModuleReleaseMeta: that with its channel."""
        channel = self._channel(module)
        every = self._view.all(TEMPLATES_IN, self._namespace)
        found = [each for each in every if module_of(each) == module.name and each.spec.channel == channel]
        if not found:
            raise _NoMeta(f'no ModuleReleaseMeta found  for module "{module.name}" in namespace "{self._namespace}"')
        if len(found) > 1:
            names = " ".join(sorted(each.metadata.name for each in found))
            raise Problem(
                "no unique template could be identified: more than one module template found for module: "
                f"{module.name}, candidates: [{names}]"
            )
        if found[0].spec.mandatory:
            raise _NotOffered(f"template marked as mandatory: for module {module.name} in channel {channel}")
        return found[0]

    def _await_window(self, template: ModuleTemplate, former: ModuleStatus | None) -> None:
        """A first installation never waits: there is nothing to interrupt."""
        is_installed = former is not None and former.manifest is not None and former.version != version_of(template)
        if not template.spec.requires_downtime or self._spec.skip_maintenance_windows or not is_installed:
            return
        try:
            if self._offers.windows is None:
                raise NoWindow("there is no maintenance policy that can be used")
            window = self._offers.windows.window(self._kyma.metadata.labels, self._view.now, self._offers.least_window)
        except NoWindow as error:
            raise _WindowNotKnown(f"failed to determine if maintenance window is active: {error}") from None
        if not self._view.is_past(window.begin):
            raise _WaitsForWindow("waiting for next maintenance window to update module version")

    def _await_turn(
        self, module: Module, former: ModuleStatus | None, found: _Resolved, installed: Manifest | None
    ) -> None:
        """A first installation never waits, nor does a module that its user takes over, or whose template does not name
        its version."""
        template, version = found.template, found.component.version
        if not self._offers.limits_rollouts or not module.managed:
            return
        if installed is None or installed.spec.version == version:
            return
        if (template.spec.module_name, template.spec.version) != (module.name, version):
            return
        if former is not None and self._is_delayed(module, installed, found):
            return  # it would take a turn and not use it
        if not has_turn(self._view, self._kyma.key, template.key):
            raise _WaitsForTurn(waiting_message(version))

    def _admit(self, module: Module, meta: ModuleReleaseMetaSpec | None, template: ModuleTemplate) -> None:
        for mark, name in ((labels.INTERNAL_LABEL, "internal"), (labels.BETA_LABEL, "beta")):
            if is_marked(template, mark) and not is_marked(self._kyma, mark):
                raise _NotAllowed(f"module template not allowed: {name} module")
        if template.spec.mandatory:
            raise self._hidden(module)
        if not is_offered(module.name, meta, self._kyma, self._offers.restricted):
            raise _NotAllowed("module template not allowed: restricted module")

    def _hidden(self, module: Module) -> Problem:
        return _NotOffered(f"no templates were found: for module {module.name} in channel {self._channel(module)}")

    def _component(self, template: ModuleTemplate, meta: ModuleReleaseMetaSpec | None) -> Component:
        try:
            component = self._offers.component(template, meta.ocm_component_name if meta is not None else "")
        except SourceError as error:
            raise Problem(f"failed to get descriptor: {error}") from error
        found = _known(component, f"the descriptor of {template.ref}")
        if found is None:
            raise Problem(f"failed to get descriptor: {template.ref} has none, and no registry is configured")
        for what, value in (("name", found.name), ("version", found.version)):
            if not value:
                raise Problem(f"invalid component {what}: value not provided")
        return found

    def _refuse_downgrade(
        self, module: Module, former: ModuleStatus | None, installed: Manifest | None, version: str
    ) -> None:
        """Major, minor and patch count. An older version needs that the module is removed first.

        After an error the status does not show what is installed; the Manifest does.
        """
        if former is not None and former.template is not None:
            channel, previous = former.channel, former.version
        elif installed is not None and not installed.metadata.is_terminating:
            channel, previous = installed.metadata.labels.get(labels.CHANNEL_LABEL, ""), installed.spec.version
        else:
            return
        new, old = precedence(version), precedence(previous)
        for text, (is_version, *_) in ((version, new), (previous, old)):
            if not is_version:
                raise _Downgrade(f"module template update not allowed: {text!r} is no semantic version")
        if new[1] < old[1]:
            raise _Downgrade(
                f"module template update not allowed: ignore channel skew (from {channel} to {self._channel(module)}), "
                f"as a higher version ({previous}) of the module was previously installed"
            )

    # ---- what is written

    def _manifest(self, module: Module, name: str, found: _Resolved) -> JsonObject:
        template, component = found
        marks = {labels.CHANNEL_LABEL: self._channel(module)}
        notes = {} if module.managed else {labels.IS_UNMANAGED_ANNOTATION: "true"}
        policy, namespace = module.custom_resource_policy, self._offers.sync_namespace
        return manifest_of(self._kyma, name, module.name, template, component, marks, notes, policy, namespace)

    # ---- what is shown

    def _shown(self, module: Module, found: _Resolved, body: JsonObject, seen: Manifest | None) -> ModuleStatus:
        template, component = found
        key = ObjectKey(self._namespace, str(cast("JsonObject", body["metadata"])["name"]))
        return ModuleStatus(
            name=module.name,
            fqdn=component.name,
            ocm_component_name=component.name,
            channel=self._channel(module),
            version=component.version,
            state=seen.status.state if seen is not None else State.Unset,
            message=cause_of(seen) if seen is not None else "",
            manifest=_tracked(Manifest.resource, key, seen.metadata.generation if seen is not None else 0),
            template=_tracked(ModuleTemplate.resource, template.key, template.metadata.generation),
            resource=_default_reference(module, template, cast("JsonObject", body["spec"])),
        )

    # ---- modules that were removed from the specification

    def _removal(self, module: Module) -> Plan:
        former, installed = self._former[module.name], self._installed(module.name)
        if installed is None or labels.IS_UNMANAGED_ANNOTATION in installed.metadata.annotations:
            return Plan(name=module.name, status=None)
        status = msgspec.structs.replace(
            former, state=installed.status.state, message=cause_of(installed), maintenance=False
        )
        if not installed.metadata.is_terminating:
            return Plan(name=module.name, status=status, removed=installed)
        if former.template is None:
            text = f"invalid module entry in Kyma status for module {module.name}: ModuleTemplate reference is missing"
            return Plan(name=module.name, status=msgspec.structs.replace(status, message=text))
        module = msgspec.structs.replace(module, custom_resource_policy=installed.spec.custom_resource_policy)
        try:  # an upgrade goes on while the deletion is held up: it may be what the module needs to be deleted
            found = self._resolved(module, former, installed)
            name, seen = self._target(module, found)
        except Problem:
            return Plan(name=module.name, status=status)
        if seen is None or not self._is_due(module, former, found, seen):
            return Plan(name=module.name, status=status)
        body = self._manifest(module, name, found)
        metadata = {**cast("JsonObject", body["metadata"]), "uid": seen.metadata.uid}
        shown = self._shown(module, found, body, seen)
        return Plan(name=module.name, status=shown, wanted={**body, "metadata": metadata})


def _known(answer: Known[A], what: str) -> A | None:
    match answer:
        case Present(value):
            return value
        case Unknown(why):
            raise NotKnown(what, why)
        case Absent():
            return None


def _module_of(manifest: Manifest) -> str:
    return manifest.metadata.labels.get(labels.MODULE_NAME_LABEL, "")


def _is_leaving(manifest: Manifest) -> bool:
    """Whether it is being deleted, or goes by itself and leaves its objects to the user."""
    return manifest.metadata.is_terminating or labels.IS_UNMANAGED_ANNOTATION in manifest.metadata.annotations


def _unmanaged(status: ModuleStatus) -> ModuleStatus:
    """Channel and version stay: they are those that the user has from now on."""
    return msgspec.structs.replace(
        status, state=State.Unmanaged, message="", maintenance=False, manifest=None, template=None, resource=None
    )


def _with_problem(name: str, channel: str, former: ModuleStatus | None, problem: Problem) -> ModuleStatus:
    message = str(problem)
    if former is None or not problem.keeps:
        state = problem.state if problem.state is not None else State.Error
        component = former.ocm_component_name if former is not None else ""
        return ModuleStatus(
            name=name, channel=channel, fqdn=component, ocm_component_name=component, state=state, message=message
        )
    state = problem.state if problem.state is not None else former.state
    return msgspec.structs.replace(former, state=state, message=message, maintenance=problem.maintenance)


def _tracked(resource: Resource, key: ObjectKey, generation: int) -> TrackedObject:
    metadata = TrackedMetadata(name=key.name, namespace=key.namespace, generation=generation)
    return TrackedObject(api_version=resource.api_version, kind=resource.kind, metadata=metadata)


def _default_reference(module: Module, template: ModuleTemplate, spec: JsonObject) -> TrackedObject | None:
    resource = spec.get("resource")
    if module.custom_resource_policy != CustomResourcePolicy.CreateAndDelete or not isinstance(resource, dict):
        return None
    metadata = cast("JsonObject", resource["metadata"])
    is_cluster_scoped = template.metadata.annotations.get(labels.IS_CLUSTER_SCOPED_ANNOTATION) == "true"
    return TrackedObject(
        api_version=str(resource.get("apiVersion", "")),
        kind=str(resource.get("kind", "")),
        metadata=TrackedMetadata(
            name=str(metadata["name"]), namespace="" if is_cluster_scoped else str(metadata["namespace"])
        ),
    )
