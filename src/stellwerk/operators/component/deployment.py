"""Files into objects, objects into the target: what a pass does between its source and its status.

Rendering is remembered by what went into it, and what was prepared from a rendering by its digest, so a pass that finds
nothing new costs a few look-ups. What is remembered of a set (`Memory`) saves requests and may be lost at any time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from stellwerk.apply import kinds
from stellwerk.apply.rollout import allowed, stored
from stellwerk.apply.rollout.inventory import Identity, Inventory
from stellwerk.apply.rollout.owner import Owner
from stellwerk.apply.rollout.policy import Policies
from stellwerk.apply.rollout.prepare import Wanted, prepared
from stellwerk.apply.rollout.register import newcomers, taken_over
from stellwerk.apply.rollout.rollout import Memory, Progress, Rollout, Save, ends_the_pass
from stellwerk.apply.rollout.scene import Habits
from stellwerk.apply.rollout.served import resources_of
from stellwerk.apply.rollout.usage import Usage
from stellwerk.kube.client import Client
from stellwerk.kube.errors import NotServed
from stellwerk.kube.model import JsonObject, JsonValue, to_json_object
from stellwerk.kube.names import ObjectKey, Resource
from stellwerk.operators.component import delete_hooks, digests, nesting, plan
from stellwerk.operators.component.api import RECONCILER, Component
from stellwerk.operators.component.api_status import Artifact, ComponentStatus, State
from stellwerk.operators.component.lookups import Lookups
from stellwerk.operators.component.references import Resolved
from stellwerk.operators.component.targets import Target, Targets
from stellwerk.operators.owned import Place, places
from stellwerk.render import values
from stellwerk.render.files import Files
from stellwerk.render.request import Claim, Cluster, Lookup, PostBuild, Release, Rendered, Request
from stellwerk.runtime.clock import Clock

_KEPT = 64
"""How many prepared sets are remembered."""


class Renders(Protocol):
    """What renders; `render.renderer.Renderer` does."""

    async def render(self, request: Request, lookup: Lookup | None = None) -> Rendered:
        """The objects that files make. Raises a `RenderError`."""
        ...

    async def holds(self, claim: Claim) -> bool:
        """Whether an expression is true of its objects. Raises a `RenderError`."""
        ...


@dataclass(frozen=True, slots=True)
class Content:
    """What is being worked on."""

    artifact: Artifact
    resolved: Resolved = field(repr=False)
    digest: str
    is_restart: bool = False
    """Whether it replaces another one, from this pass on."""


@dataclass(slots=True, kw_only=True)
class Deployer:
    """Deploys Components. `cluster_uid` answers with the uid of the operator's own cluster."""

    renderer: Renders
    targets: Targets
    cluster_uid: Callable[[], Awaitable[str]]
    habits: Habits
    clock: Clock
    find: Callable[[ObjectKey], Component | None]
    """A Component of the operator's own cluster, by its key."""
    owners: dict[str, ObjectKey] = field(default_factory=dict)
    """Whose objects carry an owner's label: whom a change of such an object concerns."""
    _owners: dict[ObjectKey, Owner] = field(default_factory=dict)
    _memories: dict[ObjectKey, tuple[str, Memory]] = field(default_factory=dict)
    _prepared: OrderedDict[tuple[object, ...], tuple[Wanted, ...]] = field(default_factory=OrderedDict)

    async def apply(
        self,
        component: Component,
        status: ComponentStatus,
        content: Content,
        files: Files,
        target: Target,
        save: Save = ends_the_pass,
    ) -> Progress:
        """Bring the objects towards what is asked for. Raises RenderError, ApplyError, ApiError, Unwatchable.

        A content that replaces another one is announced before the first object is touched: whoever waits for Ready
        must not take the one of the content before for it. One that asks for nothing new in the cluster is not: it is
        as Ready as the one before.
        """
        rendered = await self.render(component, status, content, files, target)
        owner, policies = await self._owner(component), plan.policies(component.spec)
        wanted = await self._wanted(component, rendered, content, owner, policies, target)
        if not target.is_remote:
            nesting.check(component, [one.identity for one in wanted], self.find, await self.cluster_uid())
        known = _known(component, content, wanted)
        new = newcomers(wanted, known)
        announces = content.is_restart
        if announces and not new and component.status.state is not State.Ready:
            if not await save(known):
                return Progress(known, must_be_saved=True)
            announces = False
        if target.acts_as:
            await allowed.check(target.client, new, target.acts_as)
        resources = await _covered(wanted, known, target)
        rollout = self._rollout(component, owner, policies, target)
        seen = target.owned.of(owner.label_value)
        progress = await rollout.apply(wanted, known, seen, resources, announces=announces, save=save)
        target.owned.expect(progress.carried)
        return progress

    async def obstacle(self, component: Component, target: Target) -> str:
        """Why the objects must not be deleted now; empty where they may. Raises ApiError."""
        usage = Usage(target.client, await self._owner(component))
        known = stored.read(component.status.inventory)
        return await usage.obstacle(known, plan.policies_of_deletion(component.spec).managed_types)

    async def delete(self, component: Component, target: Target) -> Progress:
        """Take the objects away, as far as it goes now. Raises ApplyError, ApiError, Unwatchable."""
        known, policies = stored.read(component.status.inventory), plan.policies_of_deletion(component.spec)
        owner = await self._owner(component)
        farewell = await delete_hooks.kept(component, known, target.client, owner, policies)
        resources = await _covered(farewell.hooks if farewell else (), known, target)
        rollout = self._rollout(component, owner, policies, target)
        progress = await rollout.delete(known, target.owned.of(owner.label_value), resources, farewell)
        target.owned.expect(progress.carried)
        return progress

    def forget(self, key: ObjectKey) -> None:
        """The Component is gone."""
        self._memories.pop(key, None)
        owner = self._owners.pop(key, None)
        if owner is not None:
            del self.owners[owner.label_value]

    # ---- rendering

    async def render(
        self, component: Component, status: ComponentStatus, content: Content, files: Files, target: Target
    ) -> Rendered:
        """The objects that the content makes. Raises a RenderError."""
        asked = request_of(component, status, content, files, await target.facts())
        return await self.renderer.render(asked, Lookups(component, target, self.targets))

    # ---- objects

    async def _wanted(
        self,
        component: Component,
        rendered: Rendered,
        content: Content,
        owner: Owner,
        policies: Policies,
        target: Target,
    ) -> tuple[Wanted, ...]:
        documents, hooks = delete_hooks.documents_of(component, rendered)
        served = await kinds.served((*documents, *(hook.document for hook in hooks)), target.client.mapper)
        identity = (
            rendered.digest,
            content.digest,
            owner,
            policies,
            component.target.namespace,
            tuple(served.values()),
        )
        known = self._prepared.get(identity)
        if known is None:
            delete_hooks.checked(hooks, served, component, owner, policies)
            known = self._prepared[identity] = prepared(
                documents,
                served,
                namespace=component.target.namespace,
                owner=owner,
                policies=policies,
                set_digest=content.digest,
            )
            while len(self._prepared) > _KEPT:
                self._prepared.popitem(last=False)
        self._prepared.move_to_end(identity)
        return known

    def _rollout(self, component: Component, owner: Owner, policies: Policies, target: Target) -> Rollout:
        return Rollout(
            client=target.client,
            owner=owner,
            policies=policies,
            habits=self.habits,
            memory=self._memory(component),
            namespace_exists=target.owned.namespace_exists,
            owned=target.owned.find,
            now=self.clock.now(),
            clock=self.clock.monotonic(),
        )

    def _memory(self, component: Component) -> Memory:
        """What is remembered of this very Component, and not of a former one of its name."""
        uid, memory = self._memories.get(component.key, ("", Memory()))
        if uid != component.metadata.uid:
            memory = Memory()
            self._memories[component.key] = (component.metadata.uid, memory)
        return memory

    async def _owner(self, component: Component) -> Owner:
        """As whom the objects of a Component are marked; the same for every Component of its name."""
        owner = self._owners.get(component.key)
        if owner is None:
            owner = Owner(RECONCILER, digests.owner_id(await self.cluster_uid(), component.key))
            self._owners[component.key] = owner
            self.owners[owner.label_value] = component.key
        return owner


def request_of(
    component: Component, status: ComponentStatus, content: Content, files: Files, cluster: Cluster
) -> Request:
    """What the renderer is asked for (pure). Raises InvalidValues, InvalidSpec."""
    spec, key = component.spec, component.target
    layers = layers_of(component, content.resolved)
    return Request(
        files=files,
        path=spec.path,
        prefix=RECONCILER,
        release=Release(key.name, key.namespace, RECONCILER, status.revision),
        values=values.merge(layers),
        component=to_json_object(msgspec.structs.replace(component, status=status)),
        component_digest=content.digest,
        cluster=cluster,
        decryption=content.resolved.decryption_keys,
        post_build=_post_build(component, content.resolved),
        farewells=delete_hooks.asked(spec),
        tenant=component.metadata.namespace,
        secrets=lambda: values.secret_words(layers) | values.words_of(_foreign_variables(component, content.resolved)),
    )


def layers_of(component: Component, resolved: Resolved) -> list[values.Layer]:
    """The values of a Component, the nearest last. Raises InvalidValues."""
    layers = [
        values.Layer(one.origin, values.read(one.text.decode(), one.origin), secret=True) for one in resolved.values
    ]
    own = component.spec.values
    if own is not None:
        layers.append(values.Layer("spec.values", values.checked(own, "spec.values")))
    return layers


def _foreign_variables(component: Component, resolved: Resolved) -> list[JsonValue]:
    """The values of variables that do not stand in the spec itself."""
    asked = component.spec.post_build
    own = asked.substitute if asked is not None else {}
    return [value for name, value in resolved.substitutes.items() if name not in own]


def _post_build(component: Component, resolved: Resolved) -> PostBuild:
    asked = component.spec.post_build
    if asked is None:
        return PostBuild()
    patches: list[JsonObject] = [to_json_object(patch) for patch in asked.patches]
    images: list[JsonObject] = [to_json_object(image) for image in asked.images]
    return PostBuild(resolved.substitutes or None, patches, images)


def _known(component: Component, content: Content, wanted: Sequence[Wanted]) -> Inventory:
    """What the set holds; what an original was done with, and is wanted just so, is done (pure)."""
    known = stored.read(component.status.inventory)
    return taken_over(wanted, known) if plan.is_applied(component, content.artifact) else known


async def _covered(wanted: Sequence[Wanted], known: Inventory, target: Target) -> Mapping[Identity, Resource]:
    """Where the kinds of a set are served, which are watched from now on. Raises ApiError, Unwatchable."""
    resources = await resources_of(wanted, known, target.client.mapper)
    await target.owned.cover(await _watched(resources, target.client))
    return resources


async def _watched(resources: Mapping[Identity, Resource], client: Client) -> list[Place]:
    """Where objects may be: a kind that a definition of the set has yet to bring has none."""
    served: dict[Resource, bool] = {}
    for resource in dict.fromkeys(resources.values()):
        try:
            await client.mapper.resource(resource.gvk)
            served[resource] = bool(resource.plural)  # without one, an APIService of the set had yet to bring the kind
        except NotServed:
            served[resource] = False
    return [place for place in places(resources) if served[place.resource]]
