"""What messages show about a name that refers to nothing: which names there are, and how to see them (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stellwerk.kube.types.model import HasMetadata
from stellwerk.operators.cap.kinds.application import CAPApplication
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
