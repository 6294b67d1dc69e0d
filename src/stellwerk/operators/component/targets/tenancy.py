"""The identity that a Component acts as, and what it may name (pure).

By default this is the original's behaviour: an account that may create Components has the rights of the
operator. For shared clusters there are switches: `strict` asks for a ServiceAccount, whose rights then bound the
Component; `no_cross_namespace_refs` keeps Components to the sources and Components of their own namespace; and some
namespaces may be excluded as targets; permissions express this better, but not on every platform.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.component import errors
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.settings import Mode, Settings
from stellwerk.operators.component.sources import sources
from stellwerk.operators.component.targets.seals import OPERATOR
from stellwerk.runtime.settings import parsers


@dataclass(frozen=True, slots=True)
class ActingAccount:
    """A ServiceAccount to act as."""

    namespace: str
    name: str

    @property
    def user(self) -> str:
        """As the API server knows it. It adds the groups of a ServiceAccount by itself; naming them would take the
        right to impersonate groups."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


def account(component: Component, settings: Settings) -> ActingAccount | None:
    """The ServiceAccount that the spec names for the operator's own cluster; None: the operator itself.

    A deletion obeys the same rule: it writes and, with delete hooks, creates. Raises `InvalidSpec` where the name
    cannot be one, and `ServiceAccountRequired` where there is none although the tenancy requires one.
    """
    name = component.spec.service_account_name.strip() or settings.default_service_account.strip()
    if not name:
        require_account(None, settings)
        return None
    try:
        return ActingAccount(component.metadata.namespace, parsers.name(name))
    except ValueError as error:
        raise errors.InvalidSpec("serviceAccountName", str(error)) from None


def account_of_deletion(component: Component, settings: Settings, applied_as: str) -> ActingAccount | None:
    """The account that deletes the objects: the one that applied them, whatever the spec names now.

    `applied_as` is the identity with a valid seal; empty where none is known, then the spec counts. The operator
    deletes as itself only what it applied as itself, and only while Components may do without an account.
    Raises as `account` does.
    """
    namespace = component.metadata.namespace
    own = ActingAccount(namespace, "").user
    if applied_as.startswith(own):
        return ActingAccount(namespace, applied_as.removeprefix(own))
    if applied_as == OPERATOR and settings.tenancy is not Mode.STRICT and not settings.default_service_account.strip():
        return None
    return account(component, settings)


def require_account(acting_as: ActingAccount | None, settings: Settings) -> None:
    """Raises `ServiceAccountRequired` where nothing may act as the operator and no account is named."""
    if acting_as is None and settings.tenancy is Mode.STRICT:
        raise errors.ServiceAccountRequired


def advice(component: Component) -> str:
    """The next step for a deletion that lacks an account."""
    namespace, name = component.key
    patch = '{"spec":{"serviceAccountName":"ACCOUNT"}}'
    return (
        f"its objects ({len(component.status.inventory)}) are deleted as an account that may delete them: "
        f"kubectl -n {namespace} patch component {name} --type merge -p '{patch}'"
    )


def advice_on_rights(component: Component, applied_as: str) -> str:
    """The next step for a deletion that is forbidden. `applied_as` is the identity that counts, empty if the account of
    the spec does; without any account there is no advice."""
    if not applied_as and component.spec.service_account_name.strip():
        return advice(component)
    if not applied_as:
        return ""
    return (
        "a deletion acts as the identity that applied the objects (status.appliedAs), whatever the spec names now; "
        "grant that identity the rights again"
    )


def check(component: Component, settings: Settings) -> None:
    """What must hold before objects are applied.

    Raises `InvalidSpec`, `ServiceAccountRequired`, `TargetNamespaceRefused` or `CrossNamespaceReference`.
    """
    account(component, settings)
    check_target(component, settings)
    if settings.no_cross_namespace_refs:
        for field, target in _references(component):
            if target.namespace != component.metadata.namespace:
                raise errors.CrossNamespaceReference(field, target)


def check_target(component: Component, settings: Settings) -> None:
    """Raises `TargetNamespaceRefused`."""
    if component.spec.kube_config is None and component.target.namespace in settings.excluded_namespaces:
        raise errors.TargetNamespaceRefused(component.target.namespace)


def _references(component: Component) -> Iterator[tuple[str, ObjectKey]]:
    for source in sources.given(component):
        if source.repository is None:
            yield f"sourceRef.{source.kind}", source.key
    for number, one in enumerate(component.spec.dependencies):
        yield f"dependencies[{number}]", one.key(component.metadata.namespace)
