"""Whom a Component acts as, and what it may name (pure).

By default this is the original's behaviour: whoever may create Components may do what the operator may. For clusters
that are shared there are switches: `strict` asks for a ServiceAccount, whose rights then bound the Component;
`cross_namespace_refs` off keeps Components to the sources and Components of their own namespace; and some namespaces
may be kept out as targets, which rights say better but not every platform says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stellwerk.kube.names import ObjectKey
from stellwerk.operators.component import sources
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.errors import CrossNamespaceReference, ServiceAccountRequired, TargetNamespaceRefused
from stellwerk.operators.component.settings import Mode, Tenancy


@dataclass(frozen=True, slots=True)
class Account:
    """A ServiceAccount to act as."""

    namespace: str
    name: str

    @property
    def user(self) -> str:
        """As the API server knows it. It adds the groups of a ServiceAccount by itself; naming them would take the
        right to impersonate groups."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


def account(component: Component, tenancy: Tenancy) -> Account | None:
    """Whom the Component acts as in the operator's own cluster; None: as the operator."""
    name = component.spec.service_account_name or tenancy.default_service_account
    return Account(component.metadata.namespace, name) if name else None


def check(component: Component, tenancy: Tenancy) -> None:
    """Raises `ServiceAccountRequired`, `TargetNamespaceRefused` or `CrossNamespaceReference`.

    A deletion is not checked: it only takes away.
    """
    if component.metadata.is_terminating:
        return
    if tenancy.mode is Mode.STRICT and account(component, tenancy) is None:
        raise ServiceAccountRequired
    if component.spec.kube_config is None and component.target.namespace in tenancy.refused_target_namespaces:
        raise TargetNamespaceRefused(component.target.namespace)
    if not tenancy.cross_namespace_refs:
        for field, target in _references(component):
            if target.namespace != component.metadata.namespace:
                raise CrossNamespaceReference(field, target)


def _references(component: Component) -> Iterator[tuple[str, ObjectKey]]:
    for source in sources.given(component):
        if source.key is not None:
            yield f"sourceRef.{source.kind}", source.key
    for number, one in enumerate(component.spec.dependencies):
        yield f"dependencies[{number}]", one.key(component.metadata.namespace)
