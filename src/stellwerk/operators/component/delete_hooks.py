"""Hooks of a chart for the end of its release: refused, left out, or run when the Component is deleted.

The original refuses them, because it would forget them, and so do we unless `spec.deleteHooks` says otherwise. Those
that are to run are kept beside the objects (`apply.rollout.hooks`): at the end nothing is rendered, and no source has
to be there.

With `deletePolicy: Orphan` nothing goes, so nothing is said goodbye to, and nothing is kept for it: a hook that drops a
database whose application stays would be the opposite of what that policy is for. As with the objects, what counts is
the policy with which they were applied last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stellwerk.api.core import Secret
from stellwerk.apply import kinds
from stellwerk.apply.errors import InvalidSet, Problem
from stellwerk.apply.manifests import Document, Origin
from stellwerk.apply.rollout import farewell, hooks
from stellwerk.apply.rollout.farewell import Farewell
from stellwerk.apply.rollout.hooks import Hook, Moment
from stellwerk.apply.rollout.inventory import Identity, Inventory
from stellwerk.apply.rollout.owner import Owner, Standing
from stellwerk.apply.rollout.policy import DeletePolicy, Policies
from stellwerk.apply.rollout.prepare import Wanted, prepared
from stellwerk.kube.client import Client
from stellwerk.kube.names import GroupVersionKind, ObjectKey, Resource
from stellwerk.operators.component.api import RECONCILER, Component
from stellwerk.operators.component.api_spec import ComponentSpec, DeleteHooks
from stellwerk.operators.component.errors import InvalidSpec
from stellwerk.render.request import Farewells, Rendered

_ASKED: Mapping[str, Farewells] = {
    "": "refuse",
    DeleteHooks.Refuse: "refuse",
    DeleteHooks.Skip: "omit",
    DeleteHooks.Run: "keep",
}

_LEAVING_ALL = frozenset(policy.value for policy in DeletePolicy if policy.orphans_on_delete)


def asked(spec: ComponentSpec) -> Farewells:
    """What the renderer does with such hooks. Raises InvalidSpec."""
    if spec.delete_hooks not in _ASKED:
        known = ", ".join(DeleteHooks)
        raise InvalidSpec("deleteHooks", f"{spec.delete_hooks!r} is unknown; expected one of {known}")
    return _ASKED[spec.delete_hooks]


# ---- while it is applied


def documents_of(component: Component, rendered: Rendered) -> tuple[tuple[Document, ...], tuple[Hook, ...]]:
    """The documents of the set, the keeper of the hooks among them; and the hooks. Raises InvalidSet, InvalidSpec."""
    pairs = zip(rendered.objects, rendered.origins, strict=True)
    whole, found = hooks.split((Document(body, Origin(file=origin)) for body, origin in pairs), RECONCILER)
    if not found:
        return whole, ()
    if asked(component.spec) != "keep":
        why = "it is meant for the end of the release; set spec.deleteHooks to Run"
        raise InvalidSet([Problem(found[0].title, why)])
    if component.spec.delete_policy in _LEAVING_ALL:
        return whole, ()
    key = _keeper_of(component)
    return (*whole, hooks.keeper(found, key.name, key.namespace, RECONCILER)), found


def checked(
    found: Sequence[Hook],
    served: Mapping[GroupVersionKind, Resource],
    component: Component,
    owner: Owner,
    policies: Policies,
) -> None:
    """What could not be run at the end is refused now. Raises InvalidSet."""
    for moment in Moment:
        _prepared(_of_moment(found, moment), served, moment, component, owner, policies)


# ---- when it goes


async def kept(
    component: Component, known: Inventory, client: Client, owner: Owner, policies: Policies
) -> Farewell | None:
    """What is still to be done before the Component is gone; None where nothing is. Raises InvalidSet, ApiError."""
    key = _keeper_of(component)
    keeper = Identity("", "Secret", key)
    if component.spec.delete_hooks != DeleteHooks.Run or keeper not in known.by_identity():
        return None
    secret = await client.find(Secret, key.name, key.namespace)
    if secret is None or secret.metadata.is_terminating or owner.standing(secret.metadata) is not Standing.OURS:
        return None
    found = hooks.unpacked(str(key), secret.decoded().get(hooks.KEY))
    documents = [hook.document for hook in found]
    served = await kinds.served(documents, client.mapper)
    open_ = {moment: _still_open(found, moment, known) for moment in Moment}
    before, after = (_prepared(open_[moment], served, moment, component, owner, policies) for moment in Moment)
    return Farewell(keeper, before, after)


def _still_open(found: Sequence[Hook], moment: Moment, known: Inventory) -> list[Hook]:
    """The hooks of a moment that has not passed: kinds of those that have run may be gone by now."""
    of_moment = _of_moment(found, moment)
    return [] if farewell.is_over(known, moment, len(of_moment)) else of_moment


def _of_moment(found: Sequence[Hook], moment: Moment) -> list[Hook]:
    return [hook for hook in found if moment in hook.moments]


def _prepared(
    found: Sequence[Hook],
    served: Mapping[GroupVersionKind, Resource],
    moment: Moment,
    component: Component,
    owner: Owner,
    policies: Policies,
) -> tuple[Wanted, ...]:
    return prepared(
        [hook.at(moment, RECONCILER) for hook in found],
        served,
        namespace=component.target.namespace,
        owner=owner,
        policies=policies,
        set_digest=moment.value,
    )


def _keeper_of(component: Component) -> ObjectKey:
    namespace, name = component.target
    return ObjectKey(namespace, f"{name}.delete-hooks")
