"""What a Kyma needs next, as a value: its remote cluster prepared, its modules as Manifests, its status on both sides.

| the Kyma | needs |
| --- | --- |
| is being deleted | the next step of its end (`deletion`) |
| is skipped by its label | nothing |
| lacks our finalizer or label, or a state | it |
| has no cluster that can be used, or another one | to show that on all modules, and to wait |
| has a cluster that is not noted on it | to note that |
| has a cluster that lacks something | namespace, definitions, pull Secret, Kyma, each in its turn (`sync`) |
| has modules and a catalog that are not as they should be | Manifests and entries written, all in one step |
| shows another status than what was found | to show it, here and in the cluster |

What cannot be read is never taken for absent: then nothing is written, and the status stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar, cast

import msgspec

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import Secret
from stellwerk.delivery.step_rights import Use
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import StatusError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import (
    HasMetadata,
    JsonObject,
    PartialObjectMetadata,
    Unreadable,
    Unstructured,
    unstructured,
)
from stellwerk.kube.types.object_meta import is_usable
from stellwerk.operators.kyma import access, labels, metrics
from stellwerk.operators.kyma.access import AccessSecretNotFound, AccessUnclear
from stellwerk.operators.kyma.api import Kyma, KymaSpec, KymaStatus, ModuleStatus
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.api_module import ModuleTemplate
from stellwerk.operators.kyma.api_status import State
from stellwerk.operators.kyma.collections import (
    ACCESS_SECRETS,
    GATEWAYS,
    HOME_DEFINITIONS,
    KYMAS,
    MANIFESTS,
    MANIFESTS_OF_KYMA,
    METAS,
    METAS_IN,
    OTHER_SECRETS,
    RUNTIME_DEFINITIONS,
    RUNTIME_KYMAS,
    RUNTIME_METAS,
    RUNTIME_METAS_EVERYWHERE,
    RUNTIME_NAMESPACES,
    RUNTIME_SECRETS,
    RUNTIME_TEMPLATES,
    RUNTIME_TEMPLATES_EVERYWHERE,
    TEMPLATES,
    TEMPLATES_IN,
    WATCHERS,
)
from stellwerk.operators.kyma.kyma import catalog, deletion, skr, status, sync
from stellwerk.operators.kyma.kyma.catalog import Entry
from stellwerk.operators.kyma.kyma.deletion import FormerUseCase, Remains, RuntimeRemains, UseCase
from stellwerk.operators.kyma.kyma.skr import InvalidKymaSpec
from stellwerk.operators.kyma.kyma.status import ConditionType, Findings
from stellwerk.operators.kyma.kyma.sync import (
    Applied,
    Change,
    Created,
    DefinitionMissing,
    Deleted,
    Home,
    Marked,
    Part,
    Remote,
    Shown,
)
from stellwerk.operators.kyma.module.resolution import Offers, Plan, as_module, cause_of, is_offered, resolve
from stellwerk.operators.kyma.reasons import KymaEvent
from stellwerk.operators.kyma.settings import Settings
from stellwerk.operators.kyma.watcher import certificates, webhook
from stellwerk.operators.kyma.watcher.certificates import Removal
from stellwerk.operators.kyma.watcher.webhook import WebhookPart
from stellwerk.runtime.cache.remote_clusters import Kubeconfig
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control.step import (
    Apply,
    Create,
    Delete,
    Failure,
    Hands,
    Patch,
    Refusal,
    RemoveFinalizer,
    Show,
    Step,
    Wait,
    Write,
)
from stellwerk.runtime.reading.known import Listing, NotKnown, Present, Unknown
from stellwerk.runtime.reading.questions import NOT_LISTED, Collection
from stellwerk.runtime.reading.view import Overlay, View
from stellwerk.runtime.reconciler import Notice, Severity

if TYPE_CHECKING:
    from stellwerk.delivery.step_preview import Draft

KymaStep: TypeAlias = Step[KymaStatus]
T = TypeVar("T", bound=HasMetadata)

OWN = Use(KYMAS, "no Kyma is seen, or held until its modules are gone", (Patch, RemoveFinalizer))
USES = (
    Use(MANIFESTS, "no Kyma gets a module, or loses one", (Apply, Delete)),
    Use(TEMPLATES, "no version of a module is known"),
    Use(METAS, "no module has a channel"),
    Use(ACCESS_SECRETS, "no remote cluster is reached"),
    Use(OTHER_SECRETS, "no remote cluster gets the Secret to pull images with"),
    Use(WATCHERS, "no remote cluster reports changes"),
    Use(GATEWAYS, "no remote cluster knows where to report changes"),
)
"""What passes ask about and steps write in the control plane, for the rights."""
USES_OF_CLUSTER = (Use(HOME_DEFINITIONS, "no remote cluster gets the kinds of its Kyma"),)
"""The same of what has no namespace."""
REMOTE_USES: tuple[Use[Any], ...] = (
    Use(RUNTIME_NAMESPACES, "a remote cluster has no place for its Kyma", (Apply,)),
    Use(RUNTIME_DEFINITIONS, "a remote cluster does not serve Kymas and its catalog", (Apply, Delete)),
    Use(RUNTIME_SECRETS, "a remote cluster has no Secret to pull images with", (Apply,)),
    Use(RUNTIME_KYMAS, "users have no Kyma, or its metadata are not kept", (Create, Apply, Patch, Delete)),
    Use(RUNTIME_TEMPLATES, "a remote cluster has no catalog", (Apply, Delete)),
    Use(RUNTIME_METAS, "a remote cluster has no catalog", (Apply, Delete)),
)
"""The same in a remote cluster, whose login has the rights."""

SHOWN_DELETING = ".status.State set to Deleting"
"""The operation in the remote cluster of a Kyma that is being deleted."""
PROGRESS_EVERY = timedelta(seconds=2)
"""How often modules are shown that make progress while the Kyma stays as it is. Twenty modules that become ready one
after the other would else be twenty statuses on both sides."""
FOREIGN_FINALIZERS = "waiting as other finalizers are present"


_REASONS: Mapping[str, KymaEvent] = {Part.KYMA: KymaEvent.NOT_MARKED, Part.STATUS: KymaEvent.NOT_SHOWN}
_PREFIXES: Mapping[str, str] = {
    Part.DEFINITIONS: "failed to sync CRDs to SKR: ",
    Part.CATALOG: "catalog sync: Could not apply ModuleTemplates: ",
}
"""How the message about a refused write begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KymaSettings:
    """What the process is started with, as far as Kymas depend on it."""

    offers: Callable[[View], Offers]
    """What decides about modules, with the view of the pass."""
    pull_secret: str = ""
    """The name of the Secret that remote clusters get to pull images with; empty: they get none."""
    success_interval: timedelta = timedelta(minutes=5)
    warning_interval: timedelta = timedelta(seconds=30)
    busy_interval: timedelta = timedelta(seconds=5)
    """How long until a Kyma in such a state is looked at without a change. That asks nothing of any API server."""
    is_deleted_as_before: bool = False
    """Whether a deletion takes the former order of steps."""
    is_purged: bool = False
    """Whether the finalizer of `purge` is left to that."""
    has_series: Callable[[Kyma], bool] = lambda _: False
    """Whether a Kyma has series of metrics."""
    hide_series: Callable[[Kyma], None] = lambda _: None
    """End them, although the Kyma is still there."""
    watcher: Settings | None = None
    """Of what reports changes in remote clusters; None: nothing is known of it. If it is disabled, what was installed
    earlier goes with its Kyma."""


class PullSecretMissing(Exception):
    """The Secret that remote clusters get does not exist in the control plane."""

    def __init__(self, key: ObjectKey) -> None:
        super().__init__(
            f"failed to sync the image pull secret: Secret {key} does not exist. Create it, or start the operator "
            f"without --skr-image-pull-secret; look for it: kubectl get secret -n {key.namespace} {key.name}"
        )


@dataclass(frozen=True, slots=True)
class DefinitionContent:
    """The content of a CustomResourceDefinition of the control plane, which its uid and generation name."""

    name: str
    uid: str
    generation: int

    @property
    def tenant(self) -> str:
        """As `Load.tenant`."""
        return labels.KCP_NAMESPACE

    @property
    def about(self) -> str:
        """As `Load.about`."""
        return f"CustomResourceDefinition {self.name}"

    async def fetch(self, client: Client) -> Unstructured | None:
        """As `Load.fetch`."""
        found = await client.find(unstructured(CustomResourceDefinition.resource), self.name)
        if found is not None and (found.metadata.uid, found.metadata.generation) != (self.uid, self.generation):
            raise NotKnown(self.about, "it has changed, and the cache does not show that yet")
        return found

    def size(self, value: Unstructured) -> int:
        """As `Load.size`."""
        return len(msgspec.json.encode(value.body))


@dataclass(frozen=True, slots=True)
class HideSeries:
    """The end of the series of metrics of a Kyma that is still there."""

    verbs: ClassVar[Mapping[str, str]] = {}

    kyma: Kyma
    hide: Callable[[Kyma], None] = field(compare=False)

    @property
    def about(self) -> str:
        """The object, for messages."""
        return f"the series of {self.kyma.ref}"

    def describe(self, draft: Draft) -> None:
        """As `Described.describe`: only scrapes see it."""

    async def perform(self, hands: Hands) -> None:
        """As `Write.perform`."""
        self.hide(self.kyma)

    def rehearse(self, overlay: Overlay, now: datetime) -> None:
        """As `Write.rehearse`: only scrapes see it."""


# ---- the decision


def decide(kyma: Kyma, view: View) -> KymaStep:
    """What the Kyma needs next. Raises NotKnown."""
    if kyma.metadata.is_terminating:
        return _leave(kyma, view)
    if catalog.is_marked(kyma, labels.SKIP_RECONCILIATION_LABEL) or kyma.status.state is State.Unmanaged:
        return Step()
    if lacking := sync.lacking_hold(kyma):
        return Step(writes=(Patch(KYMAS, kyma, {"metadata": lacking}, _refusal(KymaEvent.NOT_HELD)),))
    nothing: Findings = dict.fromkeys(_required(view))
    if kyma.status.state is State.Unset:
        return Step(status=status.started(kyma, nothing, view.now), events=_lack_of_series(kyma))
    try:
        there = access.runtime(view, kyma.key)
    except AccessUnclear as error:
        shown = status.disconnected(kyma, str(error), nothing, view.now)
        return Step(status=shown, waits=(Wait(str(error)),))
    if (found := access.identity(there)) and not access.cluster_noted(kyma):
        noted: JsonObject = {"annotations": {labels.CLUSTER_ANNOTATION: found}}
        return Step(writes=(Patch(KYMAS, kyma, {"metadata": noted}, _refusal(KymaEvent.NOT_HELD)),))
    return _Pass(kyma, view, there).step()


def _lack_of_series(kyma: Kyma) -> tuple[Notice, ...]:
    if metrics.identity(kyma) is not None:
        return ()
    message = (
        f"there are no metrics of this Kyma: it needs the annotation {labels.SKR_DOMAIN_ANNOTATION} with a domain, and "
        f"the label {labels.INSTANCE_ID_LABEL}"
    )
    return (Notice(KymaEvent.NO_METRICS, message, Severity.WARNING, KymaEvent.NO_METRICS),)


@dataclass(slots=True)
class _Pass:
    """A Kyma that stays, and its remote cluster, which answers."""

    kyma: Kyma
    view: View
    there: View
    served: frozenset[str] = frozenset()
    """The definitions that the remote cluster has established. What it does not serve yet is not asked for: each list
    of it would be refused, after each event of its definition."""

    def step(self) -> KymaStep:
        """What the Kyma needs next. Raises NotKnown."""
        definitions = _definitions(self.there)
        self.served = frozenset(name for name, each in definitions.items() if _is_established(each))
        remote = Remote(
            namespace=self.there.find(RUNTIME_NAMESPACES, ObjectKey("", labels.SKR_NAMESPACE)),
            definitions=definitions,
            kyma=self.there.find(RUNTIME_KYMAS, labels.SKR_KYMA) if _KYMA_DEFINITION in self.served else None,
        )
        try:
            return self._step(remote)
        except (DefinitionMissing, PullSecretMissing, InvalidKymaSpec) as error:
            parts = {DefinitionMissing: ConditionType.DEFINITIONS, PullSecretMissing: ConditionType.PULL_SECRET}
            broken = {parts[type(error)]: False} if type(error) in parts else {}
            shown = status.failed(self.kyma, str(error), self._findings(broken), self.view.now)
            return self._told(shown, remote, (Wait(str(error)),))

    def _step(self, remote: Remote) -> KymaStep:
        kyma, view, settings = self.kyma, self.view, self.view.setting(KymaSettings)
        offers = settings.offers(view)
        hidden = self._hidden_entries()
        home = Home(
            kyma=kyma,
            definitions=self._home_definitions(),
            catalog=None if hidden else self._catalog(offers),
            catalog_namespace=offers.sync_namespace,
        )
        remote = replace(remote, entries=tuple(each for listing in self._entries for each in listing.values))
        if settings.pull_secret:
            home = replace(
                home, pull_secret=self._pull_secret(ObjectKey(kyma.metadata.namespace, settings.pull_secret))
            )
            there = ObjectKey(labels.SKR_NAMESPACE, settings.pull_secret)
            remote = replace(remote, pull_secret=self.there.find(RUNTIME_SECRETS, there))
        due = sync.due_parts(home, remote)
        for part in (Part.NAMESPACE, Part.DEFINITIONS, Part.PULL_SECRET):
            if part in due:
                return Step(writes=self._writes(part, due[part], remote))
        for name, definition in remote.definitions.items():
            if name not in self.served:
                on = (RUNTIME_DEFINITIONS, ObjectKey("", name))
                return Step(waits=(Wait(on, f"{definition.ref} is not served yet", cluster=self.there.cluster),))
        copied = self._writes(Part.CATALOG, due.get(Part.CATALOG, ()), remote)
        if remote.kyma is None:
            # An API server takes two seconds for the first object of a new definition, in which it takes others.
            event = Notice(KymaEvent.INSTALLED, f"Kyma {labels.SKR_KYMA} is created in the remote cluster")
            created = self._writes(Part.KYMA, due[Part.KYMA], remote)
            return Step(writes=(*created, *copied), events=(event,), is_independent=True)
        if Part.KYMA in due:
            return Step(writes=self._writes(Part.KYMA, due[Part.KYMA], remote))
        if kyma.status.state is State.Error and Part.STATUS in due:  # before what has failed is tried again
            return Step(writes=self._writes(Part.STATUS, due[Part.STATUS], remote))
        spec = skr.effective_spec(kyma, remote.kyma)
        plans = resolve(kyma, spec, offers, view)
        modules = tuple(plan.status for plan in plans if plan.status is not None)
        written = [write for plan in plans for write in self._module_writes(plan, modules)]
        watcher = self._watcher()
        if written or copied or watcher.writes:
            draft = msgspec.structs.replace(kyma.status, modules=modules) if written else None
            listed = {each.name for each in kyma.status.modules}
            if any(plan.wanted is not None and plan.name not in listed for plan in plans):
                # Saved before a Manifest is created: one that no status names would stay if its module is removed.
                return Step(status=draft)
            return Step(status=draft, writes=(*written, *copied, *watcher.writes), is_independent=True)
        return self._rest(remote, spec, modules, hidden, watcher)

    def _watcher(self) -> WebhookPart:
        settings = self.view.setting(KymaSettings).watcher
        if settings is None or settings.disable_watcher:
            return WebhookPart(holds=True)
        return webhook.next_part(self.kyma, self.view, self.there, settings, self._part_refused(ConditionType.WEBHOOK))

    def _rest(
        self, remote: Remote, spec: KymaSpec, modules: Sequence[ModuleStatus], hidden: str, watcher: WebhookPart
    ) -> KymaStep:
        """All is written: what was found is shown."""
        found = {ConditionType.CATALOG: not hidden, ConditionType.WEBHOOK: watcher.holds}
        findings = {each: found.get(each, True) for each in _required(self.view)}
        shown = status.processed(self.kyma, spec.channel, modules, findings, self.view.now)
        if watcher.error:
            ready = {**findings, ConditionType.MODULES: status.are_ready(modules)}
            shown = status.failed(self.kyma, watcher.error, ready, self.view.now, modules)
        waits = [_wait(each, spec) for each in modules if _is_awaited(each, spec)]
        return self._told(shown, remote, (*waits, *watcher.waits, *((Wait(hidden),) if hidden else ())))

    def _told(self, shown: KymaStatus, remote: Remote, waits: tuple[Wait, ...]) -> KymaStep:
        """The status here, then in the remote cluster; then the Kyma rests for a while."""
        if shown != self.kyma.status and self._is_due(shown):
            return Step(status=shown)
        shown = self.kyma.status
        wanted = skr.status_for_skr(shown)
        if remote.kyma is not None and remote.kyma.status != wanted:
            return Step(writes=self._writes(Part.STATUS, (Shown(wanted),), remote))
        settings = self.view.setting(KymaSettings)
        intervals = {State.Ready: settings.success_interval, State.Processing: settings.busy_interval}
        self.view.is_past(self.view.now + intervals.get(shown.state, settings.warning_interval))
        return Step(waits=waits)

    def _is_due(self, shown: KymaStatus) -> bool:
        """Whether another status is shown now, and not with what is about to follow. Woken by the clock if not."""
        last = self.kyma.status.last_operation
        at = last.last_update_time if last is not None else None
        if at is None or not is_usable(at) or at > self.view.now or not status.is_progress(self.kyma.status, shown):
            return True
        return self.view.is_past(at + PROGRESS_EVERY)

    # ---- what there is

    def _home_definitions(self) -> Mapping[str, Unstructured]:
        found: dict[str, Unstructured] = {}
        for name in sync.DEFINITIONS:
            identity = self.view.find(HOME_DEFINITIONS, ObjectKey("", name), _content_of)
            if identity is None:
                continue
            content = self.view.load(identity)
            if isinstance(content, Unknown):
                raise NotKnown(identity.about, content.why)
            if isinstance(content, Present):
                found[name] = content.value
        return found

    def _pull_secret(self, key: ObjectKey) -> Secret:
        seen = self.view.find(OTHER_SECRETS, key)
        if seen is None:
            raise PullSecretMissing(key)
        return access.content_of(self.view, seen)

    def _catalog(self, offers: Offers) -> catalog.Catalog | None:
        kyma = self.kyma
        if kyma.metadata.labels.get(labels.SYNC_LABEL, "").lower() == "false":
            return None
        return catalog.catalog_of(
            kyma,
            self.view.by(TEMPLATES_IN, kyma.metadata.namespace).values,
            self.view.by(METAS_IN, kyma.metadata.namespace).values,
            is_offered=lambda module, meta: is_offered(
                module, meta.spec if meta is not None else None, kyma, offers.restricted
            ),
        )

    @property
    def _entries(self) -> tuple[Listing[Entry], ...]:
        """The objects of the catalog in all namespaces of the remote cluster, of the kinds that it serves."""
        kinds = ((_TEMPLATE_DEFINITION, RUNTIME_TEMPLATES_EVERYWHERE), (_META_DEFINITION, RUNTIME_METAS_EVERYWHERE))
        return tuple(cast("Listing[Entry]", self.there.by(index, "")) for name, index in kinds if name in self.served)

    def _hidden_entries(self) -> str:
        """Why the catalog is left as it is: an object of it cannot be read; empty if all can."""
        namespace = self.kyma.metadata.namespace
        hidden: tuple[Unreadable, ...] = (
            *self.view.by(TEMPLATES_IN, namespace).unknown,
            *self.view.by(METAS_IN, namespace).unknown,
            *(each for listing in self._entries for each in listing.unknown),
        )
        return f"{hidden[0].ref} cannot be read, so the catalog stays as it is: {hidden[0].why}" if hidden else ""

    def _findings(self, found: Findings) -> Findings:
        """What was found; of the other conditions what is shown already."""
        former = _shown_findings(self.kyma)
        return {each: found[each] if each in found else former.get(each) for each in _required(self.view)}

    # ---- what is written

    def _writes(self, part: Part, changes: Iterable[Change], remote: Remote) -> tuple[Write, ...]:
        refused, to = self._part_refused(part), self.there.cluster
        return tuple(self._write(change, remote, refused, to) for change in changes)

    def _write(self, change: Change, remote: Remote, refused: Refusal, to: Kubeconfig | None) -> Write:
        match change:
            case Applied():
                return _APPLY[change.desired.resource.kind](change, refused, to)
            case Created(body):
                return Create(RUNTIME_KYMAS, body, refused, to)
            case Deleted(entry):
                return _deleted(entry, refused, to)
            case Marked(metadata, manager):
                assert remote.kyma is not None
                return Apply(RUNTIME_KYMAS, _marked(remote.kyma, metadata), manager, refused, remote.kyma, to)
            case Shown(shown):
                assert remote.kyma is not None
                return Show(RUNTIME_KYMAS, remote.kyma, shown, refused, cluster=to)

    def _module_writes(self, plan: Plan, modules: Sequence[ModuleStatus]) -> Iterable[Write]:
        refused = self._module_refused(plan, modules)
        if plan.removed is not None:
            yield Delete(MANIFESTS, plan.removed, refused, f"the module {plan.name} is removed")
        if plan.wanted is not None:
            yield Apply(MANIFESTS, plan.wanted, labels.FIELD_MANAGER, refused)

    def _part_refused(self, part: Part | ConditionType) -> Refusal:
        """What it means if a part cannot be written: its condition is not True, and the Kyma is in Error."""

        def failure(message: str, error: StatusError | None) -> Failure:
            broken = {_CONDITIONS[part]: False} if part in _CONDITIONS else {}
            text = f"{_PREFIXES.get(part, '')}{message}"
            shown = status.failed(self.kyma, text, self._findings(broken), self.view.now)
            return Failure(message=text, event_reason=_REASONS.get(part, KymaEvent.NOT_WRITTEN), status=shown)

        return failure

    def _module_refused(self, plan: Plan, modules: Sequence[ModuleStatus]) -> Refusal:
        """What it means if a Manifest cannot be written: its module shows it, and the others what they are."""

        def failure(message: str, error: StatusError | None) -> Failure:
            former = {each.name: each for each in self.kyma.status.modules}.get(plan.name)
            base = former or ModuleStatus(name=plan.name, state=State.Error)
            refused = msgspec.structs.replace(base, state=State.Error, message=message)
            others = [each for each in modules if each.name != plan.name]
            findings = self._findings({ConditionType.MODULES: False})
            shown = status.failed(self.kyma, message, findings, self.view.now, modules=(*others, refused))
            return Failure(message=message, event_reason=KymaEvent.NOT_WRITTEN, status=shown)

        return failure


# ---- a Kyma that is being deleted


def _leave(kyma: Kyma, view: View) -> KymaStep:
    settings = view.setting(KymaSettings)
    if not deletion.own_finalizers(kyma, is_purged=settings.is_purged):
        others = [each for each in kyma.metadata.finalizers if not settings.is_purged or each != labels.PURGE_FINALIZER]
        return _stuck(kyma, view) if others else Step()
    if kyma.status.state is not State.Deleting and not settings.is_deleted_as_before:
        return _done(
            UseCase.SET_STATE_DELETING, status=deletion.deleting(kyma.status, deletion.DELETING_MODULES, view.now)
        )
    there: View | None = None
    try:
        there = access.runtime(view, kyma.key)
    except AccessSecretNotFound:
        pass  # what is in the cluster cannot be reached any more
    except AccessUnclear as error:
        return Step(status=deletion.deleting(kyma.status, str(error), view.now), waits=(Wait(str(error)),))
    remains = Remains(
        kyma=kyma,
        has_certificate=_removal(UseCase.DELETE_CERTIFICATE, kyma, view, there).is_due,
        manifests=view.all(MANIFESTS_OF_KYMA, str(kyma.key), as_module),
        has_metrics=settings.has_series(kyma),
        is_purged=settings.is_purged,
        runtime=_runtime_remains(kyma, view, there) if there is not None else None,
    )
    if settings.is_deleted_as_before:
        return _former_step(remains, view, there)
    return _leaving_step(remains, view, there, settings)


def _removal(case: UseCase, kyma: Kyma, view: View, there: View | None) -> Removal:
    """The end of what belongs to the watcher, on one of both sides. Raises NotKnown."""
    watcher = view.setting(KymaSettings).watcher
    if watcher is None:
        return Removal()
    if case is UseCase.DELETE_CERTIFICATE:
        return certificates.removal(kyma.metadata.name, view, watcher, _refusal(case))
    return webhook.removal(there, watcher, _refusal(case)) if there is not None else Removal()


def _runtime_remains(kyma: Kyma, view: View, there: View) -> RuntimeRemains:
    ours = view.setting(KymaSettings).is_deleted_as_before and any(map(catalog.is_ours, _entries(there)))
    definitions = _definitions(there)
    return RuntimeRemains(
        kyma=there.find(RUNTIME_KYMAS, labels.SKR_KYMA),
        has_webhook=_removal(UseCase.DELETE_WEBHOOK, kyma, view, there).is_due,
        has_template_definition=_TEMPLATE_DEFINITION in definitions,
        has_meta_definition=_META_DEFINITION in definitions,
        has_kyma_definition=_KYMA_DEFINITION in definitions,
        has_catalog=ours,
    )


def _leaving_step(remains: Remains, view: View, there: View | None, settings: KymaSettings) -> KymaStep:
    kyma, case = remains.kyma, deletion.next_use_case(remains)
    assert case is not None, "our finalizer is there"
    refused, shown = _refusal(case), deletion.deleting(kyma.status, deletion.DELETING_MODULES, view.now)
    if case in _DEFINITION_OF:
        assert there is not None, "the definition was seen"
        return _without(case, RUNTIME_DEFINITIONS, _definitions(there)[_DEFINITION_OF[case]], there, shown)
    match case:
        case UseCase.SET_RUNTIME_STATE_DELETING:
            assert there is not None, "the Kyma was seen"
            return _done(case, _shown_deleting(remains, refused, there), status=shown)
        case UseCase.DELETE_MANIFESTS:
            return _done(case, *_deleted_manifests(remains, refused), status=shown)
        case UseCase.DELETE_CERTIFICATE | UseCase.DELETE_WEBHOOK:
            left = _removal(case, kyma, view, there)
            return _done(case, *left.writes, status=shown) if left.writes else Step(status=shown, waits=left.waits)
        case UseCase.DELETE_RUNTIME_KYMA:
            assert there is not None, "the Kyma was seen"
            return _without(case, RUNTIME_KYMAS, _seen(remains), there, shown)
        case UseCase.DELETE_METRICS:
            return _done(case, HideSeries(kyma, settings.hide_series), status=shown)
        case UseCase.DROP_FINALIZER:
            return _done(case, RemoveFinalizer(remains.own_finalizers[0]))
        case _:
            shown = msgspec.structs.replace(shown, modules=_left(remains))
            return Step(status=shown, waits=_waits_for(remains.manifests))


def _former_step(remains: Remains, view: View, there: View | None) -> KymaStep:
    """The next step in the former order, which sends no Events."""
    kyma, refused = remains.kyma, _refusal(KymaEvent.NOT_WRITTEN)
    match deletion.next_former_use_case(remains):
        case FormerUseCase.DELETE_RUNTIME_KYMA:
            return Step(writes=(Delete(RUNTIME_KYMAS, _seen(remains), refused, cluster=_of(there)),))
        case FormerUseCase.SET_STATE_DELETING:
            return Step(status=deletion.deleting(kyma.status, deletion.DELETING_MODULES, view.now))
        case FormerUseCase.DELETE_WEBHOOK:
            parts = [_removal(each, kyma, view, there) for each in (UseCase.DELETE_CERTIFICATE, UseCase.DELETE_WEBHOOK)]
            return Step(
                writes=tuple(write for each in parts for write in each.writes),
                waits=tuple(wait for each in parts for wait in each.waits),
            )
        case FormerUseCase.DELETE_CATALOG:
            assert there is not None, "the catalog was seen"
            ours = (each for each in _entries(there) if catalog.is_ours(each))
            return Step(writes=tuple(_deleted(each, refused, there.cluster) for each in ours))
        case FormerUseCase.RELEASE_RUNTIME_KYMA:
            free: JsonObject = {"metadata": {"finalizers": []}}
            return Step(writes=(Patch(RUNTIME_KYMAS, _seen(remains), free, refused, _of(there)),))
        case FormerUseCase.DELETE_MANIFESTS:
            return Step(writes=tuple(_deleted_manifests(remains, refused)))
        case FormerUseCase.AWAIT_MANIFESTS:
            shown = deletion.deleting(kyma.status, deletion.MANIFESTS_LEFT, view.now)
            return Step(status=shown, waits=_waits_for(remains.manifests))
        case _:
            dropped = kyma.metadata.finalizers if there is None else remains.own_finalizers
            kept = [each for each in kyma.metadata.finalizers if each not in dropped]
            return Step(writes=(Patch(KYMAS, kyma, {"metadata": {"finalizers": [*kept]}}, refused),))


def _stuck(kyma: Kyma, view: View) -> KymaStep:
    """Only others hold the Kyma."""
    message = f"{FOREIGN_FINALIZERS}: [{' '.join(kyma.metadata.finalizers)}]"
    shown = deletion.deleting(kyma.status, message, view.now)
    event = Notice(KymaEvent.STUCK, message, Severity.WARNING, KymaEvent.STUCK)
    return Step(status=shown, events=(event,) if shown != kyma.status else (), waits=(Wait(message),))


def _done(case: UseCase, *writes: Write, status: KymaStatus | None = None) -> KymaStep:
    return Step(status=status, writes=writes, events=(Notice(case, deletion.SUCCESS, action=case),))


def _without(case: UseCase, collection: Collection[T], seen: T, there: View, shown: KymaStatus) -> KymaStep:
    """The end of an object of the remote cluster."""
    if seen.metadata.is_terminating:
        message = f"{collection.resource.kind} {seen.key} of the remote cluster is being deleted"
        return Step(status=shown, waits=(Wait((collection, seen.key), message, cluster=there.cluster),))
    return _done(case, Delete(collection, seen, _refusal(case), cluster=there.cluster), status=shown)


def _shown_deleting(remains: Remains, refused: Refusal, there: View) -> Write:
    seen = _seen(remains)
    shown = deletion.deleting(seen.status, SHOWN_DELETING, there.now)
    return Show(RUNTIME_KYMAS, seen, shown, refused, labels.FINALIZER_MANAGER, there.cluster)


def _seen(remains: Remains) -> Kyma:
    """The Kyma of the remote cluster, which a step is about."""
    kyma = remains.runtime.kyma if remains.runtime is not None else None
    assert kyma is not None, "the Kyma was seen"
    return kyma


def _deleted_manifests(remains: Remains, refused: Refusal) -> Iterable[Write]:
    why = f"{remains.kyma.ref} is being deleted"
    return (Delete(MANIFESTS, each, refused, why) for each in deletion.live_manifests(remains))


def _waits_for(manifests: Iterable[Manifest]) -> tuple[Wait, ...]:
    return tuple(
        Wait((MANIFESTS, each.key), cause_of(each) or f"waiting for the end of {each.ref}") for each in manifests
    )


def _left(remains: Remains) -> tuple[ModuleStatus, ...]:
    """The modules of a Kyma that is being deleted, with what holds up their Manifests."""
    left = {each.metadata.name: each for each in remains.manifests}
    modules = []
    for each in remains.kyma.status.modules:
        manifest = left.get(each.manifest.metadata.name) if each.manifest is not None else None
        if manifest is not None:
            each = msgspec.structs.replace(each, state=manifest.status.state, message=cause_of(manifest))
        modules.append(each)
    return tuple(modules)


# ---- what both have

_KYMA_DEFINITION, _TEMPLATE_DEFINITION, _META_DEFINITION = sync.DEFINITIONS
_DEFINITION_OF: Mapping[UseCase, str] = {
    UseCase.DELETE_TEMPLATE_DEFINITION: _TEMPLATE_DEFINITION,
    UseCase.DELETE_META_DEFINITION: _META_DEFINITION,
    UseCase.DELETE_KYMA_DEFINITION: _KYMA_DEFINITION,
}
_CONDITIONS: Mapping[str, ConditionType] = {each.value: each for each in ConditionType}


def _required(view: View) -> tuple[ConditionType, ...]:
    """The conditions of a Kyma."""
    own = (ConditionType.DEFINITIONS, ConditionType.MODULES, ConditionType.CATALOG)
    settings = view.setting(KymaSettings)
    webhooks = (ConditionType.WEBHOOK,) if settings.watcher is not None and not settings.watcher.disable_watcher else ()
    return (*own, *webhooks, *((ConditionType.PULL_SECRET,) if settings.pull_secret else ()))


def _shown_findings(kyma: Kyma) -> dict[ConditionType, bool | None]:
    """What the conditions of a Kyma show."""
    known = {"True": True, "False": False}
    return {
        ConditionType(each.type): known.get(each.status) for each in kyma.status.conditions if each.type in _CONDITIONS
    }


def _content_of(definition: PartialObjectMetadata) -> DefinitionContent:
    """An aspect: which content a definition has."""
    metadata = definition.metadata
    return DefinitionContent(metadata.name, metadata.uid, metadata.generation)


def _definitions(there: View) -> dict[str, Unstructured]:
    """Those that the remote cluster has of ours."""
    found = {name: there.find(RUNTIME_DEFINITIONS, ObjectKey("", name)) for name in sync.DEFINITIONS}
    return {name: each for name, each in found.items() if each is not None}


def _is_established(definition: Unstructured) -> bool:
    return msgspec.convert(definition.body, CustomResourceDefinition).is_established


def _entries(there: View) -> tuple[Entry, ...]:
    """The objects of the catalog that can be read, of all namespaces of the remote cluster."""
    templates = there.by(RUNTIME_TEMPLATES_EVERYWHERE, "").values
    return (*templates, *there.by(RUNTIME_METAS_EVERYWHERE, "").values)


def _refusal(event_reason: str) -> Refusal:
    return lambda message, error: Failure(message=message, event_reason=event_reason)


def _of(there: View | None) -> Kubeconfig | None:
    assert there is not None, "the object was seen"
    return there.cluster


def _deleted(entry: Entry, refused: Refusal, to: Kubeconfig | None) -> Write:
    if isinstance(entry, ModuleTemplate):
        return Delete(RUNTIME_TEMPLATES, entry, refused, cluster=to)
    return Delete(RUNTIME_METAS, entry, refused, cluster=to)


def _apply(collection: Collection[T], change: Applied, refused: Refusal, to: Kubeconfig | None) -> Write:
    return Apply(collection, change.desired.body, change.field_manager, refused, None, to)


_APPLY: Mapping[str, Callable[[Applied, Refusal, Kubeconfig | None], Write]] = {
    "Namespace": partial(_apply, RUNTIME_NAMESPACES),
    "CustomResourceDefinition": partial(_apply, RUNTIME_DEFINITIONS),
    "Secret": partial(_apply, RUNTIME_SECRETS),
    "ModuleTemplate": partial(_apply, RUNTIME_TEMPLATES),
    "ModuleReleaseMeta": partial(_apply, RUNTIME_METAS),
}
"""How an object of a kind is applied in a remote cluster."""


def _marked(kyma: Kyma, marks: JsonObject) -> JsonObject:
    """Metadata for the very Kyma that was seen: an apply would create one without modules."""
    metadata = kyma.metadata
    named: JsonObject = {"name": metadata.name, "namespace": metadata.namespace, "uid": metadata.uid}
    return {"apiVersion": Kyma.resource.api_version, "kind": Kyma.resource.kind, "metadata": named | marks}


def _is_awaited(module: ModuleStatus, spec: KymaSpec) -> bool:
    """Whether it is not as the user wants it. One that is being removed may still show that it is Ready."""
    return module.state not in (State.Ready, State.Unmanaged) or _is_removed(module, spec)


def _is_removed(module: ModuleStatus, spec: KymaSpec) -> bool:
    return all(each.name != module.name for each in spec.modules)


def _wait(module: ModuleStatus, spec: KymaSpec) -> Wait:
    how = "being removed" if _is_removed(module, spec) else module.state or "new"
    return Wait(f"module {module.name} is {how}{f': {module.message}' if module.message else ''}")


@dataclass(slots=True)
class KymaLogic:
    """A Kyma, for the engine."""

    clock: Clock
    collection: Collection[Kyma] = KYMAS

    def decide(self, kyma: Kyma, view: View) -> KymaStep:
        """As `Logic.decide`."""
        return decide(kyma, view)

    def unknown(self, kyma: Kyma, view: View, missing: NotKnown) -> KymaStep:
        """As `Logic.unknown`: what is shown stays, unless the remote cluster lastingly answers nothing of use."""
        waits = (Wait(str(missing)),)
        if not missing.is_abroad or missing.why == NOT_LISTED:
            return Step(waits=waits)
        if kyma.metadata.is_terminating:
            return Step(status=deletion.deleting(kyma.status, str(missing), view.now), waits=waits)
        nothing: Findings = dict.fromkeys(_required(view))
        return Step(status=status.disconnected(kyma, str(missing), nothing, view.now), waits=waits)

    def failed(self, kyma: Kyma, failure: Failure) -> KymaStatus:
        """As `Logic.failed`."""
        return self.unexpected(kyma, failure.message)

    def unexpected(self, kyma: Kyma, message: str) -> KymaStatus:
        """As `Logic.unexpected`. A Kyma that is being deleted stays in the state Deleting."""
        if kyma.metadata.is_terminating:
            return deletion.deleting(kyma.status, message, self.clock.now())
        return status.failed(kyma, message, _shown_findings(kyma), self.clock.now())
