"""An application as the original CAP Operator leaves it, written by hand.

Labels, annotations, hashes, finalizers, owner references and names are spelled here again, from the description of the
original and not from the product, so that both can be compared. Names end in five random characters where the original
lets the API server generate them.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.cluster.cap.shop import FATE

from stellwerk.api.apps import Deployment
from stellwerk.api.batch import Job
from stellwerk.api.core import Secret, Service
from stellwerk.api.gardener import DnsEntry, GardenerCertificate
from stellwerk.api.istio import DestinationRule, Gateway, VirtualService
from stellwerk.api.networking import NetworkPolicy
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, metadata_of, unstructured
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion

FIELD_MANAGER = "controller"
"""The name of the original's program, under which it writes."""

PROVIDER, CONSUMER = "shop-provider", "shop-k2v9x"
NAMES: Mapping[str, str] = {
    "certificate": "primary-8xk2v",
    "gateway": "primary-q4m9c",
    "domain policy": "primary-7hbtn",
    "dns": "primary-zz5wd",
    "exposure": "shopw6j4r",
    "content credentials": "shop-v1-content-p9d2x",
    "srv credentials": "shop-v1-srv-h4x7z",
    "app credentials": "shop-v1-app-kk82s",
    f"{PROVIDER} context": "shop-provider-5t6gb",
    f"{CONSUMER} context": "shop-consumer-vv4lq",
    f"{PROVIDER} operation": f"{PROVIDER}-9wz8f",
    f"{CONSUMER} operation": f"{CONSUMER}-m4n7c",
    f"{PROVIDER} job": f"{PROVIDER}-mtxs-2bq8v",
    f"{CONSUMER} job": f"{CONSUMER}-mtxs-d6tpx",
    f"{PROVIDER} credentials": f"{PROVIDER}-9wz8f-mtxs-x5k8t",
    f"{CONSUMER} credentials": f"{CONSUMER}-m4n7c-mtxs-j9l2w",
}
"""The generated names, by what they are of."""

DNS_TARGET = "lb.example.com"
VCAP = (
    '{"xsuaa":[{"credentials":{"clientid":"id"},"instance_name":"uaa","label":"xsuaa","name":"uaa","tags":["xsuaa"]}]}'
)
_MOMENT = "2025-11-01T10:00:00Z"
_GROUP = "sme.sap.com"


def sha1(*parts: str) -> str:
    """Of the parts, one after the other."""
    return hashlib.sha1("".join(parts).encode(), usedforsecurity=False).hexdigest()


def sha256(*parts: str) -> str:
    """Of the parts, one after the other."""
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def compact(value: JsonValue) -> str:
    """JSON without spaces, in the order given."""
    return json.dumps(value, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Left:
    """One object that the original leaves."""

    resource: Resource
    body: JsonObject
    status: JsonObject | None = None
    """What its status shows; None where its own controller writes it."""

    @property
    def metadata(self) -> JsonObject:
        """As the original wrote it."""
        found = self.body["metadata"]
        assert isinstance(found, dict)
        return found

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.metadata["name"])

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return str(self.metadata["namespace"])


@dataclass
class Tree:
    """The application `shop` with a version, two tenants, an exposed service and a domain."""

    namespace: str
    ingress: str
    """The namespace of the ingress gateway."""
    selector: Mapping[str, str]
    """The labels of its pods."""
    host: str
    names: Mapping[str, str] = field(default_factory=lambda: NAMES)
    uids: dict[str, str] = field(default_factory=dict)
    """Of owners, by kind and name."""
    running: str = ""
    """A tenant that is being provisioned: its Job runs until a test ends that."""

    def all(self) -> Iterator[Left]:
        """The objects, owners first. A uid is looked up when an object is taken."""
        yield self.domain()
        yield from self.of_domain()
        yield self.application()
        yield self.version()
        yield from self.of_version()
        for name, kind in ((PROVIDER, "provider"), (CONSUMER, "consumer")):
            yield self.tenant(name, kind)
            yield from self.of_tenant(name, kind)

    async def plant(self, client: Client, *, running: str = "") -> None:
        """Create all objects, as the original with this client, and let Jobs and Deployments run.

        The tenant `running` is being provisioned.
        """
        self.running = running
        for left in self.all():
            view, kind = unstructured(left.resource), left.resource
            made = await client.create(view, {"apiVersion": kind.api_version, "kind": kind.kind, **left.body})
            self.uids[f"{kind.kind} {left.name}"] = made.metadata.uid
            if left.status is not None:
                patch, target = MergePatch({"status": left.status}), metadata_of(kind)
                await client.patch(target, left.name, left.namespace, patch, subresource="status")

    # ---- the domain

    def domain(self) -> Left:
        """Its Domain, which is Ready."""
        spec: JsonObject = {
            "domain": self.host,
            "ingressSelector": {**self.selector},
            "dnsMode": "Wildcard",
            "tlsMode": "Simple",
            "dnsTarget": DNS_TARGET,
        }
        metadata = self._metadata("primary", labels={"domain-host-hash": sha1(self.host)}, finalizer="domain")
        status: JsonObject = {
            "state": "Ready",
            "observedGeneration": 1,
            "observedDomain": self.host,
            "dnsTarget": DNS_TARGET,
            "gatewayName": self.names["gateway"],
            "conditions": [condition("Ready", "Domain resources are ready")],
        }
        return Left(Domain.resource, {"metadata": metadata, "spec": spec}, status)

    def of_domain(self) -> Iterator[Left]:
        """Certificate, Gateway, network policy and DNS entry."""
        owner_id = f"Domain.{self.namespace}.primary"
        credential = f"{self.namespace}--primary-gardener"
        ready: JsonObject = {"state": "Ready", "observedGeneration": 1}

        def metadata(part: str, digest: str, more: Mapping[str, str], *, owner: bool = True) -> JsonObject:
            labels = {"owner-identifier-hash": sha1(owner_id), "owner-generation": "1", **more}
            made = self._metadata(
                self.names[part], labels=labels, annotations={"owner-identifier": owner_id, "resource-hash": digest}
            )
            return made | ({"ownerReferences": [self._owner("Domain", "primary")]} if owner else {})

        certificate: JsonObject = {
            "dnsNames": [f"*.{self.host}"],
            "secretRef": {"name": credential, "namespace": self.ingress},
        }
        held = metadata("certificate", sha256(self.host, credential, self.ingress), {}, owner=False)
        body: JsonObject = {"metadata": {**held, "finalizers": [f"{_GROUP}/domain"]}, "spec": certificate}
        yield Left(GardenerCertificate.resource, body, ready)

        servers: list[JsonValue] = [
            {
                "port": {"number": 443, "protocol": "HTTPS", "name": "https"},
                "hosts": [f"./*.{self.host}"],
                "tls": {"mode": "SIMPLE", "credentialName": credential},
            }
        ]
        gateway: JsonObject = {"servers": servers, "selector": dict(sorted(self.selector.items()))}
        yield Left(Gateway.resource, {"metadata": metadata("gateway", sha256(compact(gateway)), {}), "spec": gateway})

        exposed: JsonObject = {f"{_GROUP}/category": "Workload", f"{_GROUP}/exposed-workload": "true"}
        source: JsonObject = {
            "podSelector": {"matchLabels": dict(sorted(self.selector.items()))},
            "namespaceSelector": {},
        }
        policy: JsonObject = {
            "podSelector": {"matchLabels": exposed},
            "ingress": [{"from": [source]}],
            "policyTypes": ["Ingress"],
        }
        digest = sha256(compact(policy))
        yield Left(NetworkPolicy.resource, {"metadata": metadata("domain policy", digest, {}), "spec": policy})

        name = f"*.{self.host}"
        entry: JsonObject = {"dnsName": name, "targets": [DNS_TARGET], "ttl": 600, "cnameLookupInterval": 30}
        marked = metadata("dns", sha256(name, DNS_TARGET, ""), {"dns-name-hash": sha1(name)})
        annotations = marked["annotations"]
        assert isinstance(annotations, dict)
        marked["annotations"] = {**annotations, "dns.gardener.cloud/class": "garden"}
        yield Left(DnsEntry.resource, {"metadata": marked, "spec": entry}, ready)

    # ---- the application

    def application(self) -> Left:
        """The CAPApplication, which is Consistent."""
        spec: JsonObject = {
            "btpAppName": "shop",
            "providerSubaccountId": "subaccount",
            "provider": {"subDomain": "provider", "tenantId": f"{PROVIDER}-id"},
            "btp": {"services": [{"name": "uaa", "class": "xsuaa", "secret": "uaa-secret"}]},
            "domainRefs": [{"kind": "Domain", "name": "primary"}],
        }
        metadata = self._metadata("shop", finalizer="capapplication", identity=True)
        status: JsonObject = {
            "state": "Consistent",
            "observedGeneration": 1,
            "servicesOnly": False,
            "domainSpecHash": compact({f"Domain.{self.namespace}.primary": self.host}),
            "observedSubdomains": ["api", CONSUMER, "provider"],
            "conditions": [
                condition("Ready", "", "VersionExists"),
                condition("LatestVersionReady", "", "LatestVersionReady"),
                condition("AllTenantsReady", "", "AllTenantsReady"),
            ],
        }
        return Left(CAPApplication.resource, {"metadata": metadata, "spec": spec}, status)

    def version(self) -> Left:
        """The CAPApplicationVersion, which is Ready."""
        spec: JsonObject = {
            "capApplicationInstance": "shop",
            "version": "1.0.0",
            "workloads": [*workloads()],
            "serviceExposures": [{"subDomain": "api", "routes": [{"workloadName": "srv", "port": 4004}]}],
        }
        labels = {"owner-identifier-hash": sha1(self.namespace, "shop"), "owner-generation": "1"}
        metadata = self._metadata(
            "shop-v1",
            finalizer="capapplicationversion",
            identity=True,
            labels=labels,
            annotations={"owner-identifier": f"{self.namespace}.shop"},
            owner=("CAPApplication", "shop"),
        )
        status: JsonObject = {
            "state": "Ready",
            "observedGeneration": 1,
            "finishedJobs": ["shop-v1-content"],
            "conditions": [condition("Ready", "", "WorkloadsReady")],
        }
        return Left(CAPApplicationVersion.resource, {"metadata": metadata, "spec": spec}, status)

    def of_version(self) -> Iterator[Left]:
        """Its content job, workloads, and the VirtualService of the exposed one."""
        yield self._credentials(
            "content credentials", "shop-v1", "shop-v1-content", ("CAPApplicationVersion", "shop-v1")
        )
        env: list[JsonValue] = [{"name": "CAPOP_APP_VERSION", "value": "1.0.0"}]
        content = pod("content", env, self.names["content credentials"], restartPolicy="Never")
        template: JsonObject = {"metadata": {"labels": {"x4.sap.com/disable-karydia": "true"}}, "spec": content}
        metadata = self._metadata("shop-v1-content", owner=("CAPApplicationVersion", "shop-v1"))
        yield Left(Job.resource, {"metadata": metadata, "spec": {"template": template}})

        own: JsonObject = {"matchLabels": marks("Workload")}
        policy: JsonObject = {
            "podSelector": own,
            "ingress": [{"from": [{"podSelector": own}]}],
            "policyTypes": ["Ingress"],
        }
        owned = {"owner-identifier": f"{self.namespace}.shop-v1"}
        metadata = self._metadata("shop-v1", annotations=owned, owner=("CAPApplicationVersion", "shop-v1"))
        yield Left(NetworkPolicy.resource, {"metadata": metadata, "spec": policy})
        yield from self._workload("srv", "CAP", "server-svc-port", 4004, env)
        destination: JsonObject = {
            "name": "srv-api",
            "url": "http://shop-v1-srv-svc:4004",
            "forwardAuthToken": True,
        }
        variable: JsonObject = {"name": "destinations", "value": compact([destination])}
        yield from self._workload("app", "Router", "router-svc-port", 5000, [*env, variable])

        cookie: JsonObject = {"name": "CAPOP_ROUTER_STICKY", "path": "/", "ttl": "0s"}
        rule: JsonObject = {
            "host": f"shop-v1-app-svc.{self.namespace}.svc.cluster.local",
            "trafficPolicy": {"loadBalancer": {"consistentHash": {"httpCookie": cookie}}},
        }
        metadata = self._metadata("shop-v1-app", owner=("CAPApplicationVersion", "shop-v1"))
        yield Left(DestinationRule.resource, {"metadata": metadata, "spec": rule})

        target: JsonObject = {
            "destination": {
                "host": f"shop-v1-srv-svc.{self.namespace}.svc.cluster.local",
                "port": {"number": 4004},
            }
        }
        spec = self._routes("api", target)
        metadata = self._metadata(
            self.names["exposure"],
            labels={"owner-identifier-hash": sha1("CAPApplication", self.namespace, "shop")},
            annotations={"resource-hash": sha256(compact(spec))},
            owner=("CAPApplication", "shop"),
        )
        yield Left(VirtualService.resource, {"metadata": metadata, "spec": spec})

    def _workload(self, name: str, kind: str, port: str, number: int, env: list[JsonValue]) -> Iterator[Left]:
        owner = ("CAPApplicationVersion", "shop-v1")
        full, part = f"shop-v1-{name}", f"{name} credentials"
        yield self._credentials(part, "shop-v1", full, owner)
        details = {
            f"{_GROUP}/owner-identifier-hash": sha1(self.namespace, "shop-v1"),
            f"{_GROUP}/owner-generation": "1",
        }
        labels: JsonObject = {**marks("Workload", kind, full), **details, f"{_GROUP}/exposed-workload": "true"}
        annotations: JsonObject = {f"{_GROUP}/owner-identifier": f"{self.namespace}.shop-v1"}
        both: JsonObject = {"labels": labels, "annotations": annotations}
        spec: JsonObject = {
            "selector": {"matchLabels": labels},
            "template": {"metadata": both, "spec": pod(name, env, self.names[part])},
        }
        yield Left(Deployment.resource, {"metadata": {**self._metadata(full, owner=owner), **both}, "spec": spec})

        labels = {**marks("Service", kind, f"{full}-svc"), **details}
        both = {"labels": labels, "annotations": annotations}
        service: JsonObject = {
            "type": "ClusterIP",
            "ports": [{"name": port, "port": number}],
            "selector": marks("Workload", kind, full),
        }
        metadata: JsonObject = {**self._metadata(f"{full}-svc", owner=owner), **both}
        yield Left(Service.resource, {"metadata": metadata, "spec": service})

    # ---- tenants

    def tenant(self, name: str, kind: str) -> Left:
        """A CAPTenant, which is Ready. The consumer is named by its subscription as well."""
        labels = {
            "owner-identifier-hash": sha1(self.namespace, "shop"),
            "owner-generation": "1",
            "btp-tenant-id": f"{name}-id",
            "tenant-type": kind,
            **guid(kind),
        }
        annotations = {
            "owner-identifier": f"{self.namespace}.shop",
            "subscription-context-secret": self.names[f"{name} context"],
            **guid(kind),
        }
        metadata = self._metadata(
            name,
            finalizer="captenant",
            identity=True,
            labels=labels,
            annotations=annotations,
            owner=("CAPApplication", "shop"),
        )
        spec: JsonObject = {
            "capApplicationInstance": "shop",
            "subDomain": "provider" if kind == "provider" else name,
            "tenantId": f"{name}-id",
            "version": "1.0.0",
        }
        message = f"CAPTenantOperation {self.namespace}.{self.names[f'{name} operation']} successfully completed"
        status: JsonObject = {
            "state": "Ready",
            "observedGeneration": 1,
            "currentCAPApplicationVersionInstance": "shop-v1",
            "conditions": [condition("Ready", message, "ProvisioningCompleted")],
        }
        if name == self.running:
            operation = f"{self.namespace}.{self.names[f'{name} operation']}"
            message = f"waiting for CAPTenantOperation {operation} of type provisioning to complete"
            begun = condition("Ready", message, "ProvisioningOperationCreated") | {"status": "False"}
            status = {"state": "Provisioning", "observedGeneration": 1, "conditions": [begun]}
        return Left(CAPTenant.resource, {"metadata": metadata, "spec": spec}, status)

    def of_tenant(self, name: str, kind: str) -> Iterator[Left]:
        """The payload of its subscription, its operation with a Job, and its VirtualService."""
        labels = {"btp-tenant-id": f"{name}-id", **guid(kind)}
        metadata = self._metadata(self.names[f"{name} context"], labels=labels, owner=("CAPTenant", name))
        data: JsonObject = {"subscriptionContext": base64.b64encode(b"{}").decode()}
        yield Left(Secret.resource, {"metadata": metadata, "data": data})

        owned = {"owner-identifier-hash": sha1(self.namespace, name), "owner-generation": "1", "tenant-type": kind}
        named = {"owner-identifier": f"{self.namespace}.{name}", **guid(kind)}
        spec = self._routes(
            "provider" if kind == "provider" else name,
            {
                "destination": {
                    "host": f"shop-v1-app-svc.{self.namespace}.svc.cluster.local",
                    "port": {"number": 5000},
                },
                "weight": 100,
            },
        )
        metadata = self._metadata(
            name,
            labels={**owned, **guid(kind)},
            annotations={**named, "resource-hash": sha256(compact(spec))},
            owner=("CAPTenant", name),
        )
        yield Left(VirtualService.resource, {"metadata": metadata, "spec": spec})
        yield self._operation(name, kind, {**owned, **guid(kind)}, named)
        yield from self._job(name, kind)

    def _operation(self, tenant: str, kind: str, labels: dict[str, str], annotations: dict[str, str]) -> Left:
        metadata = self._metadata(
            self.names[f"{tenant} operation"],
            finalizer="captenantoperation",
            labels={
                **labels,
                "app-identifier-hash": sha1("subaccount", "shop"),
                "tenant-operation-type": "provisioning",
                "cav-version": "1.0.0",
            },
            annotations=annotations,
            owner=("CAPTenant", tenant),
        )
        spec: JsonObject = {
            "operation": "provisioning",
            "subDomain": "provider" if kind == "provider" else tenant,
            "tenantId": f"{tenant}-id",
            "capApplicationVersionInstance": "shop-v1",
            "steps": [{"name": "mtxs", "type": "TenantOperation"}],
        }
        message = f"step 1/1 : job {self.namespace}.{self.names[f'{tenant} job']} completed"
        status: JsonObject = {
            "state": "Completed",
            "observedGeneration": 1,
            "conditions": [condition("Ready", message, "StepCompleted")],
        }
        if tenant == self.running:
            job = self.names[f"{tenant} job"]
            message = f"step 1/1 : waiting for job {self.namespace}.{job}"
            begun = condition("Ready", message, "StepProcessing") | {"status": "False"}
            status = {
                "state": "Processing",
                "observedGeneration": 1,
                "currentStep": 1,
                "activeJob": job,
                "conditions": [begun],
            }
        return Left(CAPTenantOperation.resource, {"metadata": metadata, "spec": spec}, status)

    def _job(self, tenant: str, kind: str) -> Iterator[Left]:
        operation = self.names[f"{tenant} operation"]
        owner = ("CAPTenantOperation", operation)
        yield self._credentials(f"{tenant} credentials", operation, f"{operation}-mtxs", owner)
        own = {
            "owner-identifier-hash": sha1(self.namespace, operation),
            "owner-generation": "1",
            "tenant-operation-type": "provisioning",
            "tenant-operation-step": "1",
            "workload-name": "mtxs",
            "workload-type": "TenantOperation",
            "category": "Workload",
        }
        labels: JsonObject = {"app": "shop", **{f"{_GROUP}/{key}": value for key, value in own.items()}}
        annotations: JsonObject = {f"{_GROUP}/owner-identifier": f"{self.namespace}.{operation}"}
        both: JsonObject = {"labels": labels, "annotations": annotations}
        fate: JsonObject = {FATE: "hang"} if tenant == self.running else {}
        of_pod: JsonObject = {"labels": labels, "annotations": {**annotations, **fate}}
        values = {
            "CAPOP_APP_VERSION": "1.0.0",
            "CAPOP_TENANT_ID": f"{tenant}-id",
            "CAPOP_TENANT_OPERATION": "provisioning",
            "CAPOP_TENANT_SUBDOMAIN": "provider" if kind == "provider" else tenant,
            "CAPOP_TENANT_TYPE": kind,
            "CAPOP_APP_NAME": "shop",
            "CAPOP_PROVIDER_SUBACCOUNT_ID": "subaccount",
            "CAPOP_PROVIDER_TENANT_ID": f"{PROVIDER}-id",
            "CAPOP_PROVIDER_SUBDOMAIN": "provider",
        }
        env: list[JsonValue] = [{"name": name, "value": value} for name, value in values.items()]
        payload: JsonObject = {"name": self.names[f"{tenant} context"], "key": "subscriptionContext"}
        env.append({"name": "CAPOP_SUBSCRIPTION_PAYLOAD", "valueFrom": {"secretKeyRef": payload}})
        env.append({"name": "CAPOP_TENANT_MTXS_OPERATION", "value": "subscribe"})
        run = pod("mtxs", env, self.names[f"{tenant} credentials"], restartPolicy="Never")
        containers = run["containers"]
        assert isinstance(containers, list)
        (container,) = containers
        assert isinstance(container, dict)
        container["command"] = ["node", "./node_modules/@sap/cds-mtxs/bin/cds-mtx"]
        container["args"] = [
            "$(CAPOP_TENANT_MTXS_OPERATION)",
            f"{tenant}-id",
            "--body",
            "$(CAPOP_SUBSCRIPTION_PAYLOAD)",
        ]
        metadata: JsonObject = {**self._metadata(self.names[f"{tenant} job"], owner=owner), **both}
        yield Left(Job.resource, {"metadata": metadata, "spec": {"template": {"metadata": of_pod, "spec": run}}})

    # ---- parts

    def _credentials(self, part: str, owner_name: str, prefix: str, owner: tuple[str, str]) -> Left:
        labels = {"secret-owner-hash": sha1(self.namespace, owner_name, prefix)}
        metadata = self._metadata(self.names[part], labels=labels, owner=owner)
        data: JsonObject = {"VCAP_SERVICES": base64.b64encode(VCAP.encode()).decode()}
        return Left(Secret.resource, {"metadata": metadata, "data": data})

    def _routes(self, subdomain: str, target: JsonObject) -> JsonObject:
        return {
            "hosts": [f"{subdomain}.{self.host}"],
            "gateways": [self.names["gateway"]],
            "http": [{"match": [{"uri": {"prefix": "/"}}], "route": [target]}],
        }

    def _owner(self, kind: str, name: str) -> JsonObject:
        return {
            "apiVersion": f"{_GROUP}/v1alpha1",
            "kind": kind,
            "name": name,
            "uid": self.uids.get(f"{kind} {name}", ""),
            "controller": True,
            "blockOwnerDeletion": True,
        }

    def _metadata(
        self,
        name: str,
        *,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        finalizer: str = "",
        identity: bool = False,
        owner: tuple[str, str] | None = None,
    ) -> JsonObject:
        labels, annotations = dict(labels or {}), dict(annotations or {})
        if identity:
            labels["app-identifier-hash"] = sha1("subaccount", "shop")
            annotations["app-identifier"] = "subaccount.shop"
        made: JsonObject = {"name": name, "namespace": self.namespace}
        if labels:
            made["labels"] = {f"{_GROUP}/{key}": value for key, value in labels.items()}
        if annotations:
            made["annotations"] = {f"{_GROUP}/{key}": value for key, value in annotations.items()}
        if finalizer:
            made["finalizers"] = [f"{_GROUP}/{finalizer}"]
        if owner is not None:
            made["ownerReferences"] = [self._owner(*owner)]
        return made


def workloads() -> list[JsonObject]:
    """Server, router, content job and job for tenants."""
    common: JsonObject = {"consumedBTPServices": ["uaa"]}
    return [
        {"name": "srv", **common, "deploymentDefinition": {"type": "CAP", "image": "srv:1"}},
        {"name": "app", **common, "deploymentDefinition": {"type": "Router", "image": "app:1"}},
        {"name": "content", **common, "jobDefinition": {"type": "Content", "image": "content:1"}},
        {"name": "mtxs", **common, "jobDefinition": {"type": "TenantOperation", "image": "mtxs:1"}},
    ]


def marks(category: str, kind: str = "", name: str = "") -> JsonObject:
    """The labels by which objects of the version select each other."""
    found: JsonObject = {"app": "shop", f"{_GROUP}/cav-version": "1.0.0", f"{_GROUP}/category": category}
    return found | ({f"{_GROUP}/workload-type": kind, f"{_GROUP}/workload-name": name} if kind else {})


def guid(kind: str) -> dict[str, str]:
    """The subscription of a consumer."""
    return {"subscription-guid": "guid-of-consumer"} if kind == "consumer" else {}


def pod(name: str, env: list[JsonValue], secret: str, **fields: JsonValue) -> JsonObject:
    """The pod of a workload."""
    container: JsonObject = {
        "name": name,
        "image": f"{name}:1",
        "env": [*env],
        "envFrom": [{"secretRef": {"name": secret, "optional": True}}],
    }
    return {"containers": [container], **fields}


def condition(type_: str, message: str, reason: str = "") -> JsonObject:
    """A condition that is True."""
    return {
        "type": type_,
        "status": "True",
        "reason": reason or type_,
        "message": message,
        "observedGeneration": 1,
        "lastTransitionTime": _MOMENT,
    }
