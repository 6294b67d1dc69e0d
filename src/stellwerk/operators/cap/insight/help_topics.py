"""Help about the kinds of the CAP Operator: the texts of `help/`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from importlib.resources import files
from typing import Any, TypeVar

from stellwerk.delivery.operator_spec import KindHelp
from stellwerk.operators.cap import names
from stellwerk.operators.cap.insight import facts
from stellwerk.runtime.insight.help_files import read_reasons, read_topics
from stellwerk.runtime.insight.reason_catalog import Catalogue, ReasonFacts

W = TypeVar("W", bound=StrEnum)
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


def _help(file: str, about: Mapping[W, ReasonFacts[S]], turns: Mapping[S, str], *topics: str) -> KindHelp:
    catalogue: Catalogue[Any, Any] = Catalogue(read_reasons(_FOLDER / file, about, {}), turns)
    return KindHelp(catalogue=catalogue, topics={name: _TOPICS[name] for name in topics})


_DOMAIN = _help("domain.md", facts.DOMAIN, facts.DOMAIN_TURNS, "hosts")

HELP: Mapping[str, KindHelp] = {
    "CAPApplication": _help(
        "application.md", facts.APPLICATION, facts.APPLICATION_TURNS, "upgrades", "subscriptions", "removal"
    ),
    "CAPApplicationVersion": _help("version.md", facts.VERSION, facts.VERSION_TURNS),
    "CAPTenant": _help("tenant.md", facts.TENANT, facts.TENANT_TURNS),
    "CAPTenantOperation": _help("operation.md", facts.OPERATION, facts.OPERATION_TURNS, "operations"),
    "Domain": _DOMAIN,
    "ClusterDomain": _DOMAIN,
}
