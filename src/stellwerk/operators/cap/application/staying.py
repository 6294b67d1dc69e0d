"""Tenants that stay at their versions because the chosen one is lower (pure).

The Jobs of a lower version would run on data that the higher one has changed, and a higher version that is being
deleted, cannot be read or is not Ready any more may be back soon. So only a user moves a tenant down.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.semantic_version import precedence
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.status import see_why
from stellwerk.operators.cap.kinds.tenant import CAPTenant, UpgradeStrategy
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.version.order import latest
from stellwerk.runtime import conditions


def staying_tenants(
    tenants: Sequence[CAPTenant],
    chosen: CAPApplicationVersion,
    versions: Sequence[CAPApplicationVersion],
    hidden: Collection[ObjectKey],
) -> Sequence[CAPTenant]:
    """The tenants that have a version above `chosen` and are not on their way to it, sorted.

    `versions` can be read, those that are `hidden` cannot. A tenant whose version object is gone does not stay.
    """
    number, border = chosen.spec.version, precedence(chosen.spec.version)
    above = {each.metadata.name: precedence(each.spec.version) > border for each in versions}

    def stays(tenant: CAPTenant) -> bool:
        current = tenant.status.current_version
        if not current or tenant.spec.version == number:
            return False
        if current in above:
            return above[current]
        is_hidden = ObjectKey(tenant.metadata.namespace, current) in hidden
        return is_hidden and precedence(tenant.spec.version) > border

    return sorted(filter(stays, tenants), key=lambda each: each.metadata.name)


def highest_of(tenants: Sequence[CAPTenant], versions: Sequence[CAPApplicationVersion]) -> CAPApplicationVersion | None:
    """The highest version that tenants have and that can be read."""
    current = {each.status.current_version for each in tenants}
    return latest([each for each in versions if each.metadata.name in current])


def described(
    application: CAPApplication,
    tenants: Sequence[CAPTenant],
    chosen: CAPApplicationVersion,
    versions: Sequence[CAPApplicationVersion],
) -> str:
    """Which tenants stay, why the first of them does, and the next step; empty where none of them ever follows."""
    tenants = [each for each in tenants if each.spec.version_upgrade_strategy != UpgradeStrategy.NEVER]
    if not tenants:
        return ""
    count = "1 tenant stays" if len(tenants) == 1 else f"{len(tenants)} tenants stay"
    named = conditions.first_of([each.metadata.name for each in tenants])
    key, number = application.key, chosen.spec.version
    move = f"stellwerk cap upgrade {key.name} --to {number} -n {key.namespace}"
    return (
        f"{count} above version {number}: {named}; {cause(tenants[0], versions)}. They follow to a newer version, and "
        f"to {number} with: {move}"
    )


def cause(tenant: CAPTenant, versions: Sequence[CAPApplicationVersion]) -> str:
    """Why no other tenant gets the version of a tenant that stays."""
    key = ObjectKey(tenant.metadata.namespace, tenant.status.current_version)
    version = next((each for each in versions if each.key == key), None)
    ref = f"{CAPApplicationVersion.resource.kind} {key}"
    if version is not None and version.metadata.is_terminating:
        return f"{ref} is being deleted"
    return f"{ref} {'cannot be read' if version is None else 'is not Ready'}; {see_why('cav', key)}"
