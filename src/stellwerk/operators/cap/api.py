"""All kinds of the CAP Operator, as CustomResourceDefinitions made from their structs."""

from __future__ import annotations

from stellwerk.kube.schema.crd import AGE, Definition, PrinterColumn, Version
from stellwerk.kube.types.model import Kind
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.kinds.status import READY
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, CAPTenantOutput
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion


def _definition(kind: type[Kind], *short_names: str, shows: dict[str, str]) -> Definition:
    """A kind with the condition Ready. `shows`: the columns of `kubectl get` that it alone has, with their paths."""
    ready = f'.status.conditions[?(@.type=="{READY}")]'
    columns = (
        PrinterColumn(name="Ready", path=f"{ready}.status"),
        PrinterColumn(name="State", path=".status.state"),
        PrinterColumn(name="Reason", path=f"{ready}.reason"),
        *(PrinterColumn(name=name, path=path) for name, path in shows.items()),
        AGE,
        PrinterColumn(name="Message", path=f"{ready}.message", priority=1),
    )
    versions = (Version(kind=kind, columns=columns),)
    return Definition(versions=versions, short_names=short_names, categories=_CATEGORIES)


_CATEGORIES = ("all", "sap")
_OF_TENANTS = {"Subdomain": ".spec.subDomain", "Current Version": ".status.currentCAPApplicationVersionInstance"}

DEFINITIONS: tuple[Definition, ...] = (
    _definition(CAPApplication, "ca", shows={}),
    _definition(CAPApplicationVersion, "cav", shows={"Version": ".spec.version"}),
    _definition(CAPTenant, "cat", shows=_OF_TENANTS),
    _definition(CAPTenantOperation, "ctop", shows={"Operation": ".spec.operation"}),
    Definition(
        versions=(Version(kind=CAPTenantOutput, columns=(AGE,)),), short_names=("ctout",), categories=_CATEGORIES
    ),
    _definition(Domain, "dom", shows={"Domain": ".spec.domain"}),
    _definition(ClusterDomain, "cdom", "cldom", shows={"Domain": ".spec.domain"}),
)
