"""Hooks of a chart for the end of its release: refused, left out, or run when the Component is deleted.

The original refuses them, because it would forget them, and so do we unless `spec.deleteHooks` permits them. Those
that are to run are kept with the objects (`apply.set.model.delete_hooks`): a deletion renders nothing and needs no
source.

With `deletePolicy: Orphan` nothing goes, so no hooks run, and none are kept: a hook that drops a
database whose application stays would be the opposite of what that policy is for. As with the objects, what counts is
the policy with which they were applied last.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stellwerk.api.core import Secret
from stellwerk.apply.errors import InvalidSet, Problem
from stellwerk.apply.objects import discover
from stellwerk.apply.objects.manifests import Document, Origin
from stellwerk.apply.set.model import delete_hooks
from stellwerk.apply.set.model.delete_hooks import Hook, Moment
from stellwerk.apply.set.model.desired_set import DesiredObject, Terms
from stellwerk.apply.set.model.inventory import Inventory, ObjectIdentity
from stellwerk.apply.set.model.policy import DeletePolicy
from stellwerk.apply.set.plan import plan_delete_hooks
from stellwerk.apply.set.plan.plan_delete_hooks import DeleteHookPlan
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import Forbidden
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.kube.types.model import dig, metadata_of
from stellwerk.operators.component.api import APPROVED_HOOKS_ANNOTATION, RECONCILER, Component
from stellwerk.operators.component.api_spec import ComponentSpec, DeleteHooks
from stellwerk.operators.component.component import status_plan
from stellwerk.operators.component.errors import HooksMissing, HooksNotSealed, without_hooks
from stellwerk.operators.component.settings import Settings
from stellwerk.operators.component.targets import tenancy
from stellwerk.operators.component.targets.seals import Purpose, Signet
from stellwerk.render.request.request import DeleteHookMode, Rendered

_SUFFIX = ".delete-hooks"

_MODES: Mapping[DeleteHooks, DeleteHookMode] = {
    DeleteHooks.Refuse: "refuse",
    DeleteHooks.Skip: "omit",
    DeleteHooks.Run: "keep",
}

_LEAVING_ALL = frozenset(policy.value for policy in DeletePolicy if policy.orphans_on_delete)


def asked(spec: ComponentSpec) -> DeleteHookMode:
    """What the renderer does with such hooks. Raises InvalidSpec."""
    return _MODES[status_plan.chosen("deleteHooks", spec.delete_hooks, DeleteHooks.Refuse)]


# ---- while it is applied


def documents_of(component: Component, rendered: Rendered) -> tuple[tuple[Document, ...], tuple[Hook, ...]]:
    """The documents of the set, the keeper of the hooks among them; and the hooks. Raises InvalidSet, InvalidSpec."""
    pairs = zip(rendered.objects, rendered.origins, strict=True)
    whole, found = delete_hooks.split((Document(body, Origin(file=origin)) for body, origin in pairs), RECONCILER)
    if not found:
        return whole, ()
    if asked(component.spec) != "keep":
        why = "it is meant for the end of the release; set spec.deleteHooks to Run"
        raise InvalidSet([Problem(found[0].title, why)])
    if component.spec.delete_policy in _LEAVING_ALL:
        return whole, ()
    key = _keeper_of(component)
    return (*whole, delete_hooks.keeper(found, key.name, key.namespace, RECONCILER)), found


def content_of(component: Component, wanted: Iterable[DesiredObject]) -> bytes | None:
    """What the Secret with the hooks is about to hold; None where the set has no such Secret."""
    keeper = ObjectIdentity("", "Secret", _keeper_of(component))
    body = next((obj.desired.body for obj in wanted if obj.identity == keeper), None)
    return base64.b64decode(str(dig(body, "data", delete_hooks.KEY) or "")) if body is not None else None


# ---- when it goes


@dataclass(frozen=True, slots=True)
class Trust:
    """Which hooks may run: those that the operator sealed for this Component, target and identity."""

    signet: Signet
    settings: Settings

    def check(self, component: Component, secret: ObjectKey, packed: bytes) -> None:
        """Raises HooksNotSealed. Nothing of `packed` has been read yet."""
        if any(self.signet.fits(seal, Purpose.HOOKS, packed) for seal in component.status.delete_hook_seals):
            return
        digest = hashlib.sha256(packed).hexdigest()
        if component.metadata.annotations.get(APPROVED_HOOKS_ANNOTATION) == digest:
            tenancy.check_target(component, self.settings)
            return
        raise HooksNotSealed(_advice(component, secret, digest))


def _advice(component: Component, secret: ObjectKey, digest: str) -> str:
    namespace, name = component.key
    return (
        f"the delete hooks in secret {secret} are not the ones that were sealed when the component was applied; "
        f"nothing runs and nothing is deleted; approve them as they are: kubectl -n {namespace} annotate component "
        f"{name} {APPROVED_HOOKS_ANNOTATION}={digest}; or delete without them: {without_hooks(component.key)}"
    )


async def kept(
    component: Component, known: Inventory, client: Client, terms: Terms, trust: Trust, witness: Client | None
) -> DeleteHookPlan | None:
    """What is still to be done before the Component is gone; None where nothing is.

    What proves the hooks is their seal, so a Secret whose labels another client removed still keeps them. A Secret that
    is gone holds the deletion back, unless the operator deleted it or never wrote it: a hook may save what is lost
    otherwise. `witness` sees whether the Secret exists if `client` may not ask for it.
    Raises HooksMissing, HooksNotSealed, InvalidSet, ApiError.
    """
    keeper = _keeper_in(component, known)
    if component.spec.delete_hooks != DeleteHooks.Run or keeper is None:
        return None
    key = keeper.key
    entry = known.by_identity()[keeper]
    try:
        secret = await client.find(Secret, key.name, key.namespace)
    except Forbidden:
        if entry.uid or witness is None or await witness.find(metadata_of(Secret), key.name, key.namespace):
            raise
        return None  # they were never kept
    is_over = entry.phase.is_leaving
    if (
        secret is None
        and entry.uid
        and not is_over
        and (key == _keeper_of(component) or component.status.delete_hook_seals)
    ):
        raise HooksMissing(component.key, key)
    if secret is None or (is_over and secret.metadata.is_terminating):
        return None
    may_be_another = key != _keeper_of(component) or not component.status.delete_hook_seals
    if may_be_another and secret.type != delete_hooks.type_of(RECONCILER):
        return None
    packed = secret.decoded().get(delete_hooks.KEY, b"")
    trust.check(component, key, packed)
    found = delete_hooks.unpacked(str(key), packed)
    documents = [hook.document for hook in found]
    served = await discover.served(documents, client.mapper)
    before, after = _by_moment(found, served, terms, known)
    return DeleteHookPlan(keeper, before, after)


def check(found: Sequence[Hook], served: Mapping[GroupVersionKind, Resource], terms: Terms) -> None:
    """Refuse now what could not run at the end. Raises InvalidSet."""
    _by_moment(found, served, terms)


def _by_moment(
    found: Sequence[Hook], served: Mapping[GroupVersionKind, Resource], terms: Terms, known: Inventory | None = None
) -> list[tuple[DesiredObject, ...]]:
    """The objects of the hooks of each moment; none where it has passed: kinds of those that have run may be gone.

    What could not be run is refused. Raises InvalidSet.
    """
    objects = []
    for moment in Moment:
        hooks = [hook.at(moment, RECONCILER) for hook in found if moment in hook.moments]
        if known is not None and plan_delete_hooks.is_over(known, moment, len(hooks)):
            hooks = []
        objects.append(terms.desired(hooks, served, moment.value))
    return objects


def _keeper_in(component: Component, known: Inventory) -> ObjectIdentity | None:
    """The Secret with the hooks; after an edit of spec.namespace or spec.name it is still the one that was applied."""
    wanted = ObjectIdentity("", "Secret", _keeper_of(component))
    secrets = [entry.identity for entry in known if (entry.gvk.group, entry.gvk.kind) == ("", "Secret")]
    if wanted in secrets:
        return wanted
    return next((secret for secret in secrets if secret.key.name.endswith(_SUFFIX)), None)


def _keeper_of(component: Component) -> ObjectKey:
    namespace, name = component.target
    return ObjectKey(namespace, f"{name}{_SUFFIX}")
