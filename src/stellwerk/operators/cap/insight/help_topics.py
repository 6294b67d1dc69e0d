"""Help about the kinds of the CAP Operator: the texts of `help/`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from importlib.resources import files
from typing import Any, TypeVar

from stellwerk.delivery.operator_spec import KindHelp
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import ApplicationState
from stellwerk.operators.cap.kinds.domain import DomainState
from stellwerk.operators.cap.kinds.tenant import OperationState, TenantState
from stellwerk.operators.cap.kinds.version import VersionState
from stellwerk.operators.cap.reasons import (
    ApplicationReason,
    DomainReason,
    OperationReason,
    TenantReason,
    VersionReason,
)
from stellwerk.runtime.insight.help_files import read_reasons, read_topics
from stellwerk.runtime.insight.reason_catalog import ITSELF, NO_USER, Catalogue, TabledReason, facts_of

S = TypeVar("S", bound=StrEnum)

_FOLDER = files("stellwerk.operators.cap") / "help"


_TOPICS = read_topics(
    _FOLDER / "topics.md",
    {
        "CONTEXT_SECRET_ANNOTATION": names.CONTEXT_SECRET_ANNOTATION,
        "DELETE_TENANTS_ANNOTATION": names.DELETE_TENANTS_ANNOTATION,
        "DOMAIN_SUFFIXES_ANNOTATION": names.DOMAIN_SUFFIXES_ANNOTATION,
        "RETRY_ANNOTATION": names.RETRY_ANNOTATION,
    },
)


def _help(file: str, reasons: type[TabledReason], turns: Mapping[S, str], *topics: str) -> KindHelp:
    catalogue: Catalogue[Any, Any] = Catalogue(read_reasons(_FOLDER / file, facts_of(reasons), {}), turns)
    return KindHelp(catalogue=catalogue, topics={name: _TOPICS[name] for name in topics})


_RETRIED = "The operator tries again: on every change, and by itself later and later."
_CONSISTENT = "The application needs nothing. Its tenants and its newest version may need a user: see stellwerk why."

_DOMAIN = _help(
    "domain.md",
    DomainReason,
    {
        DomainState.READY: NO_USER,
        DomainState.PROCESSING: ITSELF,
        DomainState.DELETING: ITSELF,
        DomainState.ERROR: _RETRIED,
    },
    "hosts",
)

HELP: Mapping[str, KindHelp] = {
    "CAPApplication": _help(
        "application.md",
        ApplicationReason,
        {
            ApplicationState.CONSISTENT: _CONSISTENT,
            ApplicationState.PROCESSING: ITSELF,
            ApplicationState.DELETING: ITSELF,
            ApplicationState.ERROR: _RETRIED,
        },
        "upgrades",
        "subscriptions",
        "removal",
    ),
    "CAPApplicationVersion": _help(
        "version.md",
        VersionReason,
        {
            VersionState.READY: NO_USER,
            VersionState.PROCESSING: ITSELF,
            VersionState.DELETING: ITSELF,
            VersionState.ERROR: _RETRIED,
        },
    ),
    "CAPTenant": _help(
        "tenant.md",
        TenantReason,
        {
            TenantState.UNKNOWN: _RETRIED,
            TenantState.READY: NO_USER,
            TenantState.PROVISIONING: ITSELF,
            TenantState.UPGRADING: ITSELF,
            TenantState.DELETING: ITSELF,
            TenantState.PROVISIONING_ERROR: _RETRIED,
            TenantState.UPGRADE_ERROR: _RETRIED,
        },
    ),
    "CAPTenantOperation": _help(
        "operation.md",
        OperationReason,
        {
            OperationState.COMPLETED: NO_USER,
            OperationState.PROCESSING: _RETRIED,
            OperationState.FAILED: _RETRIED,
        },
        "operations",
    ),
    "Domain": _DOMAIN,
    "ClusterDomain": _DOMAIN,
}
"""With the sentence for each state: who has to act next."""
