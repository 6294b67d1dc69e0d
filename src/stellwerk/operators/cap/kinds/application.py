"""CAPApplication: an application of the SAP Cloud Application Programming Model (CAP) and the services that it uses."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from stellwerk.kube.schema.crd import ValidationRule, documented
from stellwerk.kube.types import text_forms
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record, always_written
from stellwerk.operators.cap.kinds.status import API_VERSION, GROUP, TimedStatus

MOST_DOMAINS = 1_024
"""References of an application to domains. With more it is in state Error."""
LATEST_VERSION_READY = "LatestVersionReady"
ALL_TENANTS_READY = "AllTenantsReady"
SECRETS_AVAILABLE = "SecretsAvailable"
IDENTITY_PROVED = "IdentityProved"
CALLBACKS_DELIVERED = "CallbacksDelivered"
"""Types of further conditions; the last three are ours. The subscription server writes the last two."""


class ApplicationState(StrEnum):
    """The state of a CAPApplication."""

    UNKNOWN = ""
    CONSISTENT = "Consistent"
    PROCESSING = "Processing"
    ERROR = "Error"
    DELETING = "Deleting"


class Weekday(StrEnum):
    """The days of a week, from its first on."""

    MON = "Mon"
    TUE = "Tue"
    WED = "Wed"
    THU = "Thu"
    FRI = "Fri"
    SAT = "Sat"
    SUN = "Sun"


class UpgradePhase(StrEnum):
    """How far an upgrade of tenants is."""

    CANARY = "Canary"
    ROLLING = "Rolling"
    PAUSED = "Paused"
    WAITING = "Waiting"


class SubscriptionDependency(StrEnum):
    """Whether every subscription depends on a service."""

    AUTO = "Auto"
    ALWAYS = "Always"
    NEVER = "Never"


class DomainKind(StrEnum):
    """The kinds that a domain reference names."""

    DOMAIN = "Domain"
    CLUSTER_DOMAIN = "ClusterDomain"


class ServiceInfo(Record, frozen=True, kw_only=True):
    """A service instance that workloads use, with the Secret of its binding."""

    name: Annotated[str, documented("Name of the service, as workloads list it.", example="app-uaa")]
    class_name: Annotated[str, documented("Class of the service in SAP BTP.", example="xsuaa")] = msgspec.field(
        name="class"
    )
    secret: Annotated[
        str, documented("Secret of the service binding, in the application's namespace.", example="app-uaa-binding")
    ]
    subscription_dependency: Annotated[
        str,
        documented(
            "Whether every subscription depends on the service; Auto decides by its class and credentials.",
            otherwise="Auto",
            values=tuple(SubscriptionDependency),
            example="Always",
        ),
    ] = ""


class BtpServices(Record, frozen=True, kw_only=True):
    """What the application uses of SAP BTP."""

    services: Annotated[tuple[ServiceInfo, ...], documented("The service instances; the list may be empty.")]


class Provider(Record, frozen=True, kw_only=True):
    """The tenant of the application's provider."""

    sub_domain: Annotated[str, documented("Subdomain of the provider's subaccount.", example="shop-provider")]
    tenant_id: Annotated[
        str, documented("Tenant id of the provider's subaccount.", example="6c5b5bd7-36a8-4d61-a1d3-1d4f9c8c4b5d")
    ]

    @property
    def is_empty(self) -> bool:
        """Whether it names nothing, which is the same as no provider."""
        return not self.sub_domain and not self.tenant_id


class DomainRef(Record, frozen=True, kw_only=True):
    """A Domain of the application's namespace, or a ClusterDomain."""

    kind: Annotated[str, documented("Kind of the domain.", values=tuple(DomainKind), example="Domain")]
    name: Annotated[str, documented("Name of the object.", example="shop-primary")]


class IngressLabel(Record, frozen=True, kw_only=True):
    """A label of the pods of the ingress gateway."""

    name: Annotated[str, documented("Name of the label.", example="istio")]
    value: Annotated[str, documented("Value of the label.", example="ingressgateway")]


class InlineDomains(Record, frozen=True, kw_only=True):
    """Domains written into the application. Deprecated: they are converted to objects and to `domainRefs`."""

    primary: Annotated[
        str,
        documented("Host of the primary domain.", max_length=62, form=text_forms.HOST, example="shop.example.com"),
    ] = ""
    secondary: Annotated[
        tuple[Annotated[str, documented("A host.", pattern=text_forms.HOST.pattern)], ...],
        documented("Hosts of further domains."),
    ] = ()
    dns_target: Annotated[
        str, documented("DNS name of the ingress gateway.", form=text_forms.HOST_OR_EMPTY, example="public.example.com")
    ] = ""
    istio_ingress_gateway_labels: Annotated[
        tuple[IngressLabel, ...], documented("Labels of the pods of the ingress gateway.", min_items=1)
    ] = ()

    @property
    def is_empty(self) -> bool:
        """Whether no host is named."""
        return not self.primary and not self.secondary


class UpgradeWindow(Record, frozen=True, kw_only=True):
    """When upgrades of tenants may begin."""

    start: Annotated[str, documented("Time of day in UTC.", form=text_forms.TIME_OF_DAY, example="22:00")]
    hours: Annotated[int, documented("For how long.", unit="hours", minimum=1, maximum=24, format="int32")]
    days: Annotated[
        tuple[str, ...],
        documented("Days on which it starts.", otherwise="every day", values=tuple(Weekday), example="Sat"),
    ] = ()


class TenantUpgrade(Record, frozen=True, kw_only=True):
    """How tenants follow to a new version. Not of the original, where all follow at once."""

    canary_tenants: Annotated[
        tuple[str, ...],
        documented("Tenants that follow first, by name or tenant id. The others wait until all of them are upgraded."),
    ] = ()
    max_parallel: Annotated[
        int | None,
        documented("How many tenants are upgraded at once.", otherwise="all", minimum=1, format="int32", example="5"),
    ] = None
    max_failure_percent: Annotated[
        int | None,
        documented(
            "Of the tenants whose upgrade has ended, how many percent may have failed before no further one begins.",
            otherwise="100",
            minimum=0,
            maximum=100,
            format="int32",
            example="10",
        ),
    ] = None
    window: Annotated[UpgradeWindow | None, documented("When upgrades may begin.", otherwise="always")] = None


class JobRetry(Record, frozen=True, kw_only=True):
    """How often a failed Job runs again by itself. Not of the original, where it never does."""

    max_attempts: Annotated[
        int, documented("How often a Job is started, the first time included.", minimum=2, maximum=20, format="int32")
    ]
    delay_seconds: Annotated[
        int,
        documented(
            "Pause before the first retry; it doubles with each further one, up to an hour.",
            unit="seconds",
            minimum=0,
            maximum=3600,
            format="int32",
            otherwise="30",
        ),
    ] = 30


class ApplicationSpec(Record, frozen=True, kw_only=True):
    """What is wanted of a CAP application."""

    btp_app_name: Annotated[
        str,
        documented(
            "Name of the application in SAP BTP (xsappname). With the subaccount of the provider it identifies the "
            "application.",
            example="bookshop",
        ),
    ]
    provider_subaccount_id: Annotated[
        str, documented("Id of the provider's subaccount.", example="0c2a8f1e-54b7-4ef0-9a85-2c9d7a3b6f10")
    ] = ""
    global_account_id: Annotated[
        str,
        documented(
            "Id of the provider's global account. Deprecated; it identifies the application where "
            "`providerSubaccountId` is absent.",
            example="5f5ad5d5-7a3b-4e0e-8a66-5c7a2b6f3e9c",
        ),
    ] = ""
    provider: Annotated[
        Provider | None, documented("The provider's tenant. Without one, no tenant is created for the provider.")
    ] = None
    btp: Annotated[BtpServices, documented("Services of SAP BTP.")]
    domain_refs: Annotated[
        tuple[DomainRef, ...], documented("Domains under which the application is reached; the first is the primary.")
    ] = ()
    domains: Annotated[InlineDomains | None, documented("Deprecated form of `domainRefs`.")] = None
    rollout_on_credential_update: Annotated[
        bool,
        documented("Restart workloads when the credentials of a service that they consume change.", otherwise="false"),
    ] = False

    tenant_upgrade: Annotated[
        TenantUpgrade | None, documented("How tenants follow to a new version.", otherwise="all at once")
    ] = None
    job_retry: Annotated[
        JobRetry | None,
        documented("How often failed Jobs of tenants, and failed content jobs, run again.", otherwise="never"),
    ] = None

    @property
    def served_refs(self) -> tuple[DomainRef, ...]:
        """The references by which the application is reached: of too many, the first."""
        return self.domain_refs[:MOST_DOMAINS]

    crd_rules: ClassVar[tuple[ValidationRule, ...]] = (
        ValidationRule(
            rule="has(self.providerSubaccountId) || has(self.globalAccountId)",
            message="set providerSubaccountId to the id of the provider's subaccount",
        ),
    )


class UpgradeProgress(Record, frozen=True, kw_only=True):
    """How far the tenants are on their way to a version."""

    version: Annotated[str, documented("The version that they follow to.", example="2.1.0")]
    phase: Annotated[
        str,
        documented(
            "Canary: the first tenants follow. Rolling: the others do. Paused: too many have failed. "
            "Waiting: the window is closed.",
            values=tuple(UpgradePhase),
            example="Rolling",
        ),
    ]
    upgraded: Annotated[int, documented("Tenants that have the version.", format="int32")] = 0
    upgrading: Annotated[
        int,
        documented(
            "Tenants under way: those that are being upgraded, to an earlier version too, and canaries that are "
            "provisioned.",
            format="int32",
        ),
    ] = 0
    failed: Annotated[int, documented("Tenants whose upgrade has failed.", format="int32")] = 0
    waiting: Annotated[int, documented("Tenants that have not begun.", format="int32")] = 0


class ApplicationStatus(TimedStatus, frozen=True, kw_only=True):
    """How a CAP application is. Written by the operator only."""

    state: Annotated[
        str,
        documented(
            "Consistent: all is as wanted. Processing and Deleting: work is under way. Error: Ready has the cause.",
            values=tuple(ApplicationState),
            example="Consistent",
        ),
    ] = always_written()
    services_only: Annotated[
        bool | None,
        documented("Whether the application has no tenants. Fixed by its first version that becomes Ready."),
    ] = None
    domain_spec_hash: Annotated[
        str, documented("The domains that were last acted on, as JSON: identifier of the object to host.")
    ] = ""
    observed_subdomains: Annotated[
        tuple[str, ...], documented("Subdomains of all tenants and service exposures, sorted.")
    ] = ()
    tenant_upgrade: Annotated[
        UpgradeProgress | None, documented("The upgrade under way, where spec.tenantUpgrade is set.")
    ] = None


class CAPApplication(Kind, frozen=True, kw_only=True):
    """A CAP application: its services in SAP BTP, its domains, and its provider."""

    resource: ClassVar[Resource] = Resource(GROUP, API_VERSION, "CAPApplication", "capapplications", namespaced=True)

    spec: Annotated[ApplicationSpec, documented("What is wanted.")]
    status: Annotated[ApplicationStatus, documented("How it is.")] = ApplicationStatus()
