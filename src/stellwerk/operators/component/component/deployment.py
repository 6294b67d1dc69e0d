"""Files into objects: what a pass does between its source and its set.

Rendering is remembered by what went into it, and what was prepared from a rendering by its digest, so a pass that finds
nothing new costs a few look-ups.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import msgspec

from stellwerk.api.core import Secret
from stellwerk.apply.objects import discover
from stellwerk.apply.objects.desired import kinds_of
from stellwerk.apply.set.checks.crd_usage import CrdUsage
from stellwerk.apply.set.model import inventory_codec
from stellwerk.apply.set.model.desired_set import DesiredObject, Terms, promised, remembered
from stellwerk.apply.set.model.inventory import Inventory
from stellwerk.apply.set.model.owner import Owner
from stellwerk.apply.set.plan.inventory_update import newcomers, taken_over
from stellwerk.apply.set.plan.plan_delete_hooks import DeleteHookPlan
from stellwerk.apply.set.plan.plan_input import ApplyOptions, Proof
from stellwerk.delivery.sets.set_pass import SetWork
from stellwerk.delivery.template_lookup import secret_words_of
from stellwerk.delivery.watched_objects import Place
from stellwerk.kube import masking, threads
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue, to_json_object
from stellwerk.operators.component.api import RECONCILER, Component
from stellwerk.operators.component.api_status import Artifact, ComponentStatus
from stellwerk.operators.component.component import delete_hooks, set_checks, status_plan
from stellwerk.operators.component.component.delete_hooks import Trust
from stellwerk.operators.component.errors import HooksMissing
from stellwerk.operators.component.references.inputs import Inputs
from stellwerk.operators.component.references.references import Resolved
from stellwerk.operators.component.targets import tenancy
from stellwerk.operators.component.targets.lookups import HiddenWords, Lookups
from stellwerk.operators.component.targets.targets import Target, Targets
from stellwerk.render.bounded_cache import Kept
from stellwerk.render.files.files import Files
from stellwerk.render.request import values
from stellwerk.render.request.request import ClusterApis, ReleaseInfo, Rendered, RenderPostBuild, RenderRequest
from stellwerk.render.worker.renderer import Renderer, readable
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control import secrecy
from stellwerk.runtime.telemetry import traces

_KEPT_BYTES, _KEPT_BYTES_OF_TENANT = 32 * 2**20, 8 * 2**20
"""How much of prepared sets is remembered, as JSON; in memory they weigh several times as much."""
_SET_BYTES = 64 * 2**10
"""What each set counts at least."""
_LARGE_SET, _LARGE_SET_BYTES = 500, 2**20
"""Objects and bytes of JSON from which a set is large: planning one would block the event loop for tens of
milliseconds, so it runs in a thread."""


@dataclass(frozen=True, slots=True)
class DeploymentContent:
    """What is being worked on."""

    artifact: Artifact
    resolved: Resolved = field(repr=False)
    digest: str
    is_restart: bool = False
    """Whether it replaces another one, from this pass on."""


@dataclass(frozen=True, slots=True)
class PreparedContent:
    """A content that is ready to be applied."""

    work: SetWork
    new: tuple[DesiredObject, ...]
    """What the set does not hold yet."""
    hooks: bytes | None
    """What the Secret with the delete hooks is about to hold; None if the set has no such Secret."""
    chart_warnings: tuple[str, ...]
    """What Helm passes over in silence in the chart."""


class _Prepared(NamedTuple):
    """The objects of a rendering, ready to be applied."""

    wanted: tuple[DesiredObject, ...]
    is_large: bool


@dataclass(slots=True, kw_only=True)
class Deployer:
    """Prepares what Components deploy. `cluster_uid` answers with the uid of the operator's own cluster."""

    renderer: Renderer
    targets: Targets
    cluster_uid: Callable[[], Awaitable[str]]
    options: ApplyOptions
    inputs: Inputs
    clock: Clock
    find: Callable[[ObjectKey], Component | None]
    """A Component of the operator's own cluster, by its key."""
    owners: dict[str, ObjectKey] = field(default_factory=dict)
    """The Component of an owner's label: a change of an object with the label wakes it."""
    _owners: dict[ObjectKey, Owner] = field(default_factory=dict)
    _prepared: Kept[tuple[object, ...], _Prepared] = field(init=False)
    _hidden: HiddenWords = field(init=False)

    def __post_init__(self) -> None:
        self._hidden = HiddenWords(self.clock)
        self._prepared = Kept(
            _KEPT_BYTES, now=self.clock.monotonic, largest=_KEPT_BYTES_OF_TENANT, tenant_capacity=_KEPT_BYTES_OF_TENANT
        )

    async def prepared(
        self,
        component: Component,
        status: ComponentStatus,
        content: DeploymentContent,
        files: Files,
        target: Target,
        *,
        proof: Proof | None,
        weigh: Callable[[int], None],
    ) -> PreparedContent:
        """The objects that are asked for. Raises RenderError, ApplyError, ApiError.

        `weigh` gets the bytes that the pass holds, and ends it by what it raises.
        """
        rendered = await self.render(component, status, content, files, target)
        weigh(rendered.size + content.resolved.size)
        terms = Terms(component.target.namespace, await self._owner(component), status_plan.policies(component.spec))
        wanted, is_large = await self._wanted(component, rendered, content, terms, target)
        if not target.is_remote:
            set_checks.check_cycle(component, [obj.identity for obj in wanted], self.find, await self.cluster_uid())
        known, new = await threads.run_if_large(
            set_checks.ENTRY_BYTES * len(component.status.inventory), lambda: _known(component, content, wanted)
        )
        work = replace(self._work(component, target, terms, known), wanted=wanted, is_large=is_large, proof=proof)
        warnings = rendered.chart.warnings if rendered.chart is not None else ()
        return PreparedContent(work, new, delete_hooks.content_of(component, wanted), warnings)

    async def obstacle(self, component: Component, target: Target) -> str:
        """Why the objects must not be deleted now; empty where they may. Raises ApiError."""
        known, terms = await self._leaving(component)
        usage = CrdUsage(target.client, terms.owner, self.clock.now())
        return await usage.obstacle(known, terms.policies.type_patterns)

    async def delete_hooks(
        self, component: Component, target: Target, trust: Trust, witness: Client | None
    ) -> DeleteHookPlan | None:
        """What is to be done before the objects are gone; None where nothing is.

        Raises HooksMissing, HooksNotSealed, ApplyError, ApiError, Unwatchable.
        """
        known, terms = await self._leaving(component)
        try:
            return await delete_hooks.kept(component, known, target.client, terms, trust, witness)
        except HooksMissing as missing:
            # Watched from now on: the Secret may come back.
            await target.owned.cover([Place(Secret.resource, missing.secret.namespace)])
            raise

    async def work_of_deletion(self, component: Component, target: Target) -> SetWork:
        """The objects, as they are taken away. Raises ApiError."""
        known, terms = await self._leaving(component)
        return replace(self._work(component, target, terms, known), is_large=len(known) > _LARGE_SET)

    def forget(self, key: ObjectKey) -> None:
        """The Component is gone."""
        owner = self._owners.pop(key, None)
        if owner is not None:
            del self.owners[owner.label_value]

    # ---- rendering

    async def render(
        self, component: Component, status: ComponentStatus, content: DeploymentContent, files: Files, target: Target
    ) -> Rendered:
        """The objects that the content makes. Raises a RenderError, or KindsUnknown."""
        account = tenancy.account(component, self.targets.settings)
        facts = await target.kinds.facts(target.client)
        asked = await self.inputs.request(
            component, content.resolved, lambda layers: request_of(component, status, content, files, facts, layers)
        )
        tenant = component.metadata.namespace
        lookups = Lookups(target, self.targets, account, tenant, self._hidden)
        with traces.within("render") as span:
            rendered = await self.renderer.render(asked, lookups)
            span.record(objects=len(rendered.objects))
        if facts.unknown:
            read = readable(files, component.spec.path)
            await threads.run(lambda: set_checks.check_kinds(rendered, read, facts.unknown))
        if asked.decryption:
            secrecy.note("decrypted", lambda: _words_of(rendered))
            await self._hidden.add(
                tenant, f"decrypted for {component.key}", lambda: _words_of(rendered), rendered.digest
            )
        return rendered

    # ---- objects

    async def _wanted(
        self, component: Component, rendered: Rendered, content: DeploymentContent, terms: Terms, target: Target
    ) -> _Prepared:
        documents, hooks = delete_hooks.documents_of(component, rendered)
        of_hooks = [hook.document for hook in hooks]
        # Unlike an object, a hook has to be served now: whether it can run is checked below.
        pending = promised(documents) - {(gvk.group, gvk.version) for gvk in kinds_of(of_hooks)}
        served = await discover.served((*documents, *of_hooks), target.client.mapper, pending)
        inventory = component.status.inventory
        resources = await threads.run_if_large(
            set_checks.ENTRY_BYTES * len(inventory),
            lambda: remembered(documents, served, lambda: inventory_codec.read(inventory)),
        )
        identity = (rendered.digest, content.digest, terms, tuple(resources.values()))
        known = self._prepared.get(identity)
        if known is None:
            delete_hooks.check(hooks, served, terms)
            weight = _SET_BYTES + rendered.size
            is_large = len(documents) > _LARGE_SET or weight > _LARGE_SET_BYTES
            prepare = partial(terms.desired, documents, resources, content.digest)
            known = _Prepared(await threads.run(prepare) if is_large else prepare(), is_large)
            self._prepared.put(identity, known, weight, component.metadata.namespace)
        return known

    def _work(self, component: Component, target: Target, terms: Terms, known: Inventory) -> SetWork:
        return SetWork(
            client=target.client,
            owned=target.owned,
            owner=terms.owner,
            policies=terms.policies,
            options=self.options,
            known=known,
            tenant=component.metadata.namespace,
        )

    async def _leaving(self, component: Component) -> tuple[Inventory, Terms]:
        """What is to be deleted, and what of the spec still counts for that."""
        policies = status_plan.policies_of_deletion(component.spec)
        terms = Terms(component.target.namespace, await self._owner(component), policies)
        return inventory_codec.read(component.status.inventory), terms

    async def _owner(self, component: Component) -> Owner:
        """The owner of a Component's objects; the same for every Component of its name."""
        owner = self._owners.get(component.key)
        if owner is None:
            owner = Owner.of(RECONCILER, await self.cluster_uid(), component.key)
            self._owners[component.key] = owner
            self.owners[owner.label_value] = component.key
        return owner


def request_of(
    component: Component,
    status: ComponentStatus,
    content: DeploymentContent,
    files: Files,
    cluster: ClusterApis,
    layers: Sequence[values.Layer],
) -> RenderRequest:
    """What the renderer is asked for, with values in `layers` (pure). Raises InvalidSpec."""
    spec, key = component.spec, component.target
    return RenderRequest(
        files=files,
        path=spec.path,
        prefix=RECONCILER,
        release=ReleaseInfo(key.name, key.namespace, RECONCILER, status.revision),
        values=values.merge(layers),
        component=to_json_object(msgspec.structs.replace(component, status=status)),
        component_digest=content.digest,
        cluster=cluster,
        decryption=content.resolved.decryption_keys,
        decryption_from=content.resolved.decryption_secret,
        post_build=_post_build(component, content.resolved),
        delete_hooks=delete_hooks.asked(spec),
        tenant=component.metadata.namespace,
        weight=content.resolved.size,
        secrets=lambda: values.secret_words(layers) | masking.words_of(_foreign_variables(component, content.resolved)),
    )


def _foreign_variables(component: Component, resolved: Resolved) -> list[JsonValue]:
    """The values of variables that do not stand in the spec itself."""
    asked = component.spec.post_build
    own = asked.substitute if asked is not None else {}
    return [value for name, value in resolved.substitutes.items() if name not in own]


def _post_build(component: Component, resolved: Resolved) -> RenderPostBuild:
    asked = component.spec.post_build
    if asked is None:
        return RenderPostBuild()
    patches: list[JsonObject] = [to_json_object(patch) for patch in asked.patches]
    images: list[JsonObject] = [to_json_object(image) for image in asked.images]
    return RenderPostBuild(resolved.substitutes or None, patches, images)


def _known(
    component: Component, content: DeploymentContent, wanted: Sequence[DesiredObject]
) -> tuple[Inventory, tuple[DesiredObject, ...]]:
    """What the set holds, and what is new to it (pure). What has done its work under an original, and is wanted just
    so, has done it."""
    known = inventory_codec.read(component.status.inventory)
    if status_plan.is_unchanged(component, content.artifact):
        known = taken_over(wanted, known)
    return known, newcomers(wanted, known)


def _words_of(rendered: Rendered) -> Iterator[str]:
    """What must not be shown of decrypted files and of the Secrets that were made of them."""
    yield from rendered.decrypted
    yield from secret_words_of(rendered.objects)
