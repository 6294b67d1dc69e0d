"""What messages show about a name that refers to nothing: which names there are, and how to see them (pure)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from stellwerk.kube.types.model import HasMetadata
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.runtime import conditions

MOST_SHOWN = 5
"""Names and missing references that a message has."""


def there_are(existing: Iterable[object]) -> str:
    """Which names there are, such as `there are a, b`."""
    found = sorted({str(each) for each in existing})
    if not found:
        return "there are none"
    return f"there {'is' if len(found) == 1 else 'are'} {conditions.first_of(found, MOST_SHOWN)}"


def names_in(namespace: str, objects: Iterable[HasMetadata]) -> list[str]:
    """The names of the objects of a namespace."""
    return [each.metadata.name for each in objects if each.metadata.namespace == namespace]


def other_applications(namespace: str, existing: Iterable[str]) -> str:
    """What follows `CAPApplication shop/books does not exist`. Its name cannot be changed in what refers to it."""
    return (
        f"({there_are(existing)}): create it, or create this object again with another spec.capApplicationInstance. "
        f"See them with: kubectl get ca -n {namespace}"
    )


def unknown_services(version: CAPApplicationVersion, application: CAPApplication) -> Iterator[tuple[str, str]]:
    """The services that workloads consume and the application does not have, each with the path of its field.

    The workloads start without their credentials, as with the original.
    """
    known = {service.name for service in application.spec.btp.services}
    for index, workload in enumerate(version.spec.workloads):
        for position, name in enumerate(workload.consumed_services):
            if name not in known:
                yield f"spec.workloads[{index}].consumedBTPServices[{position}]", name


def problem_of_services(version: CAPApplicationVersion, application: CAPApplication) -> str:
    """Which services that workloads consume the application does not have, and what to do; empty where it has all."""
    unknown = [f"{path} is {name[:63]!r}" for path, name in unknown_services(version, application)]
    if not unknown:
        return ""
    services = there_are(service.name for service in application.spec.btp.services)
    return (
        f"{conditions.first_of(unknown, MOST_SHOWN)}: no such service in spec.btp.services of {application.ref} "
        f"({services}), so its workload has no credentials of it. Add the service to the application, or create "
        "another version"
    )


def problem_of_canaries(application: CAPApplication, tenants: Iterable[CAPTenant]) -> str:
    """Which canaries of an application are none of its tenants, and which it has; empty if it has all.

    An upgrade does not wait for them.
    """
    policy = application.spec.tenant_upgrade
    wanted = policy.canary_tenants if policy is not None else ()
    if not wanted:
        return ""
    ids = {each.spec.tenant_id: each.metadata.name for each in tenants}
    names = {*ids.values()}
    unknown = [each for each in dict.fromkeys(wanted) if each not in ids and each not in names]
    if not unknown:
        return ""
    in_order = sorted(names), sorted(ids)
    named = [f"{each[:63]!r}{_nearest(each, in_order)}" for each in unknown[:MOST_SHOWN]]
    more = len(unknown) - MOST_SHOWN
    listed = ", ".join(named) + (f" and {more} more" if more > 0 else "")
    name, namespace = application.metadata.name, application.metadata.namespace
    return (
        f"spec.tenantUpgrade.canaryTenants of {application.ref} has {listed}: no name and no tenant id of its tenants "
        f"({there_are(ids.values())}), so no upgrade waits for it. Correct it with: "
        f"kubectl edit ca {name} -n {namespace}"
    )


def _nearest(wanted: str, in_order: Iterable[Sequence[str]]) -> str:
    """The text that begins most like another one, in parentheses; empty if none does. Each sequence is in order."""

    def alike(text: str) -> int:
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(wanted, text, strict=False)))

    near = (each for texts in in_order for each in _beside(wanted, texts))
    nearest = max(near, key=alike, default="")
    return f" (nearest: {nearest})" if alike(nearest) else ""


def _beside(wanted: str, in_order: Sequence[str]) -> Sequence[str]:
    place = bisect_left(in_order, wanted)
    return in_order[max(place - 1, 0) : place + 1]
