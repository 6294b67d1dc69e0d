"""May cluster-wide objects be made at all? Asked before the first write of a set.

A tenant's rights end, as a rule, with its namespaces. Without this question the first stage would write the objects in
them and be refused the rest: half of a set, which no user wants. Namespaced objects are not asked about, because there
the same rights hold for nearly everything, and a question for each would double the requests.
"""

from __future__ import annotations

from collections.abc import Sequence

from stellwerk.api import authorization
from stellwerk.api.authorization import ResourceAttributes
from stellwerk.apply.errors import InvalidSet, Problem
from stellwerk.apply.set.model.desired_set import DesiredObject
from stellwerk.kube.client.client import Client
from stellwerk.kube.concurrency import together
from stellwerk.kube.types.errors import ApiError


async def check(client: Client, newcomers: Sequence[DesiredObject], who: str) -> None:
    """Raises `InvalidSet` with every cluster-wide object that `who`, the identity of the client, may not create.

    Where the question is not answered, the write itself will be.
    """
    asked = [newcomer for newcomer in newcomers if not newcomer.address.resource.namespaced]
    answers = await together(asked, lambda one: _may_make(client, one))
    problems = [
        Problem(
            str(obj.desired.ref),
            f"forbidden: {who} may not {_verb(obj)} {obj.address.resource.group_resource} in the whole cluster "
            "(grant it, or leave the object out)",
        )
        for obj, may in zip(asked, answers, strict=True)
        if not may
    ]
    if problems:
        raise InvalidSet(problems)


async def _may_make(client: Client, obj: DesiredObject) -> bool:
    attributes = ResourceAttributes(
        verb=_verb(obj),
        group=obj.address.resource.group,
        resource=obj.address.resource.plural,
        name=obj.address.key.name,
    )
    try:
        return await authorization.may(client, attributes)
    except ApiError:
        return True


def _verb(obj: DesiredObject) -> str:
    return "patch" if obj.directive.update.is_apply else "create"
