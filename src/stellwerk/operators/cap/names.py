"""Labels, annotations and finalizers of the CAP Operator, and the hashes in them.

They are a contract with clusters that the original operator has set up: objects are found by these labels, and what has
the hash of its content in an annotation is not written again. So they are spelled once, here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonValue
from stellwerk.operators.cap.kinds.application import ApplicationSpec, CAPApplication
from stellwerk.operators.cap.kinds.status import GROUP

OPERATOR_NAME = "cap-controller.sme.sap.com"
"""Field manager, and reporting controller of Events."""

LEASE_NAME = "capoperator-lease-lock"
"""The leader-election Lease, shared with the original so that both never act at once."""

# ---- finalizers

APPLICATION_FINALIZER = f"{GROUP}/capapplication"
VERSION_FINALIZER = f"{GROUP}/capapplicationversion"
TENANT_FINALIZER = f"{GROUP}/captenant"
OPERATION_FINALIZER = f"{GROUP}/captenantoperation"
DOMAIN_FINALIZER = f"{GROUP}/domain"
"""On Domains, ClusterDomains and their Certificates."""

# ---- whose an object is

APP_HASH_LABEL = f"{GROUP}/app-identifier-hash"
APP_ANNOTATION = f"{GROUP}/app-identifier"
LEGACY_APP_HASH_LABEL = f"{GROUP}/btp-app-identifier-hash"
LEGACY_APP_ANNOTATION = f"{GROUP}/btp-app-identifier"
"""The pair of releases before 2025, made of the global account."""

OWNER_HASH_LABEL = f"{GROUP}/owner-identifier-hash"
OWNER_ANNOTATION = f"{GROUP}/owner-identifier"
OWNER_GENERATION_LABEL = f"{GROUP}/owner-generation"
RESOURCE_HASH_ANNOTATION = f"{GROUP}/resource-hash"
"""The hash of what was asked for; an object that carries it is left alone."""

# ---- workloads

APP_LABEL = "app"
CATEGORY_LABEL = f"{GROUP}/category"
WORKLOAD_NAME_LABEL = f"{GROUP}/workload-name"
WORKLOAD_TYPE_LABEL = f"{GROUP}/workload-type"
VERSION_LABEL = f"{GROUP}/cav-version"
BINDINGS_ANNOTATION = f"{GROUP}/binding-versions"
"""Ours, on a Secret with credentials: the versions of the binding Secrets that it is made of, as a hash."""
EXPOSED_LABEL = f"{GROUP}/exposed-workload"
SECRET_OWNER_HASH_LABEL = f"{GROUP}/secret-owner-hash"
CONTENT_JOB_LABEL = "x4.sap.com/disable-karydia"
LOGOUT_ENDPOINT_ANNOTATION = f"{GROUP}/logout-endpoint"

# ---- tenants and operations

TENANT_TYPE_LABEL = f"{GROUP}/tenant-type"
TENANT_ID_LABEL = f"{GROUP}/btp-tenant-id"
SUBSCRIPTION_GUID = f"{GROUP}/subscription-guid"
"""A label and an annotation."""

OPERATION_TYPE_LABEL = f"{GROUP}/tenant-operation-type"
OPERATION_STEP_LABEL = f"{GROUP}/tenant-operation-step"
CONTEXT_SECRET_ANNOTATION = f"{GROUP}/subscription-context-secret"
CONTEXT_KEY = "subscriptionContext"
"""The key of the Secret with the payload of a subscription."""

CALLBACK_LABEL = f"{GROUP}/subscription-callback"
"""Ours, on a Secret with what a registry was promised: whether the callback is pending, delivered or failed."""

RETRY_ANNOTATION = f"{GROUP}/retry"
"""Ours, on a version, an operation or a tenant that failed: run the failed Job again. Each value acts once."""

DELETE_TENANTS_ANNOTATION = f"{GROUP}/delete-tenants"
"""Ours, on an application, "true": its deletion takes all tenants along, as in the first releases."""

DOMAIN_SUFFIXES_ANNOTATION = f"{GROUP}/domain-suffixes"
"""Ours, on a Namespace: the hosts of its Domains are these or below them, separated by commas or blanks."""

RESUME_ANNOTATION = f"{GROUP}/resume-upgrade"
"""Ours, on an application whose upgrade is paused: the version to which the tenants follow all the same."""

PROVIDER = "provider"
CONSUMER = "consumer"
"""The types of tenants."""

# ---- applications

PRIMARY_XSUAA_ANNOTATION = f"{GROUP}/primary-xsuaa"
ADDITIONAL_OUTPUT_ANNOTATION = f"{GROUP}/saas-additional-output"
SUBSCRIPTION_DOMAIN_ANNOTATION = f"{GROUP}/subscription-domain"
CLEANUP_ANNOTATION = f"{GROUP}/enable-cleanup-monitoring"
AFFINITY_ANNOTATION = f"{GROUP}/enable-version-affinity"
REQUEST_HEADERS_ANNOTATION = f"{GROUP}/vs-route-request-header-set"
RESPONSE_HEADERS_ANNOTATION = f"{GROUP}/vs-route-response-header-set"
GATEWAY_HEADER = "x-stellwerk-gateway"
"""By its value the subscription server knows the VirtualService that leads to it; no annotation sets it."""
GLOBAL_ACCOUNT_ANNOTATION = f"{GROUP}/global-account-id"

# ---- domains

DNS_NAME_HASH_LABEL = f"{GROUP}/dns-name-hash"
HOST_HASH_LABEL = f"{GROUP}/domain-host-hash"
COMMON_NAME_ANNOTATION = f"{GROUP}/cert-manager-common-name"
MIGRATED_ANNOTATION = f"{GROUP}/migrated-to-domain-refs-from-ca"
SERVED_NAMESPACES_ANNOTATION = f"{GROUP}/served-namespaces"
DNS_CLASS_ANNOTATION = "dns.gardener.cloud/class"
DNS_NAMES_ANNOTATION = "dns.gardener.cloud/dnsnames"
EXTERNAL_DNS_ANNOTATION = "external-dns.alpha.kubernetes.io/hostname"


_LONGEST_NAME, _DIGITS = 63, 5
"""Of derived names; a label has at most as many characters."""


def sha1(*parts: str) -> str:
    """The SHA-1 of the parts, one after the other without a separator, in hexadecimal. It protects nothing."""
    return hashlib.sha1("".join(parts).encode(), usedforsecurity=False).hexdigest()


def sha256(*parts: str) -> str:
    """The SHA-256 of the parts, one after the other without a separator, in hexadecimal."""
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def go_json(value: JsonValue, *, sorts: bool = False) -> str:
    """JSON as Go's encoder writes it: compact, with <, > and & escaped.

    Keys keep their order, as in a struct; with `sorts` they are sorted, as in a map.
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=sorts)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def derived(prefix: str, *identity: str, digits: int = _DIGITS) -> str:
    """A name that begins with `prefix` and is the same for the same identity; at most 63 characters, as a label.

    Another identity with the same five digits is found within seconds, so a name that users of several namespaces share
    needs more `digits`.
    """
    return f"{prefix[: _LONGEST_NAME - 1 - digits].rstrip('-.')}-{sha1(*identity)[:digits]}"


def provider_name(application: CAPApplication) -> str:
    """The name of the tenant of the provider."""
    return f"{application.metadata.name}-provider"


def provider_context_name(application: CAPApplication) -> str:
    """The name of the Secret with the payload of the provider."""
    return derived(provider_name(application), application.metadata.uid)


def owner_hash(key: ObjectKey) -> str:
    """The label of what belongs to an object: to an application, a version, a tenant or an operation."""
    return sha1(key.namespace, key.name)


def application_labels(spec: ApplicationSpec) -> dict[str, str]:
    """The label by which everything of an application is found (spec 3, decision table 22)."""
    if spec.provider_subaccount_id:
        return {APP_HASH_LABEL: sha1(spec.provider_subaccount_id, spec.btp_app_name)}
    return {LEGACY_APP_HASH_LABEL: sha1(spec.global_account_id, spec.btp_app_name)} if spec.global_account_id else {}


def application_annotations(spec: ApplicationSpec) -> dict[str, str]:
    """The same as people read it."""
    if spec.provider_subaccount_id:
        return {APP_ANNOTATION: f"{spec.provider_subaccount_id}.{spec.btp_app_name}"}
    return {LEGACY_APP_ANNOTATION: f"{spec.global_account_id}.{spec.btp_app_name}"} if spec.global_account_id else {}


def former_identity(spec: ApplicationSpec) -> Sequence[str]:
    """Labels and annotations that must go from all objects of an application: the legacy pair, if there is another."""
    return (LEGACY_APP_HASH_LABEL, LEGACY_APP_ANNOTATION) if spec.provider_subaccount_id else ()


def owner_labels(key: ObjectKey, generation: int) -> dict[str, str]:
    """The labels of what belongs to an object."""
    return {OWNER_HASH_LABEL: owner_hash(key), OWNER_GENERATION_LABEL: str(generation)}


def owner_annotations(key: ObjectKey) -> dict[str, str]:
    """The owner as people read it."""
    return {OWNER_ANNOTATION: dotted(key)}


def dotted(key: ObjectKey) -> str:
    """An object as annotations and messages of the original name it."""
    return f"{key.namespace}.{key.name}"


def missing(wanted: Mapping[str, str], present: Mapping[str, str]) -> dict[str, str]:
    """The entries whose keys are absent. An entry that is present is never corrected."""
    return {name: value for name, value in wanted.items() if name not in present}
