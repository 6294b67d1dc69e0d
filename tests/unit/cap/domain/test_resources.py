"""The objects of a domain, and their hashes in the original's recipes. Each expected input is written out."""

from __future__ import annotations

import base64
import hashlib

import msgspec
import pytest
from tests.unit.cap.domain.given import cluster_domain, domain

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import dig
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import naming, resources
from stellwerk.operators.cap.domain.resources import DnsRecord
from stellwerk.operators.cap.kinds.domain import CertificateConfig, CertManagerConfig, IssuerRef

KEY = ObjectKey("shop", "primary--one-x7k2p")
CREDENTIAL = resources.credential(domain(), "gardener", "cap-system", "istio-system")


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_the_owner_and_the_names_follow_kind_namespace_and_name() -> None:
    assert naming.owner_id(domain()) == "Domain.shop.primary.one"
    assert naming.owner_id(cluster_domain()) == "ClusterDomain.everywhere"
    assert naming.owner_hash(domain()) == hashlib.sha1(b"Domain.shop.primary.one").hexdigest()
    assert CREDENTIAL.name == "shop--primary--one-gardener"
    credential = resources.credential(cluster_domain(), "cert-manager.io", "cap-system", "istio-system")
    assert (credential.name, credential.namespace) == ("cap-system--everywhere-cert-manager", "istio-system")


def test_a_new_name_is_the_same_for_the_same_part_and_fits_into_a_label() -> None:
    long = msgspec.structs.replace(domain(), metadata=msgspec.structs.replace(domain().metadata, name="a" * 200))
    assert naming.base_name(long) == "a" * 57
    name = naming.child_name(long, "gateway")
    assert len(name) == 63
    assert name == naming.child_name(long, "gateway")
    assert name != naming.child_name(long, "certificate")
    assert naming.child_name(domain(), "gateway").startswith("primary--one-")


def test_a_gateway_has_the_hash_of_its_spec() -> None:
    made = resources.gateway(domain(tls_mode="OptionalMutual"), KEY, CREDENTIAL)
    text = (
        '{"servers":[{"port":{"number":443,"protocol":"HTTPS","name":"https"},"hosts":["./*.app.example.com"],'
        '"tls":{"mode":"OPTIONAL_MUTUAL","credentialName":"shop--primary--one-gardener"}}],'
        '"selector":{"app":"istio-ingressgateway","istio":"ingressgateway"}}'
    )
    assert made.hash == sha256(text)
    metadata = made.desired.body["metadata"]
    assert dig(metadata, "labels") == {names.OWNER_GENERATION_LABEL: "3"}
    assert dig(metadata, "annotations") == {names.OWNER_ANNOTATION: "Domain.shop.primary.one"}


def test_the_gateway_of_a_cluster_domain_serves_all_namespaces() -> None:
    body = resources.gateway(cluster_domain(), KEY, CREDENTIAL).desired.body
    servers = dig(body, "spec", "servers")
    assert isinstance(servers, list)
    assert dig(servers[0], "hosts") == ["*/*.app.example.com"]
    assert dig(servers[0], "tls", "mode") == "SIMPLE"


def test_a_certificate_of_gardener_has_the_hash_of_host_and_secret() -> None:
    made = resources.gardener_certificate(domain(), KEY, CREDENTIAL)
    assert made.hash == sha256("app.example.comshop--primary--one-gardeneristio-system")
    assert dig(made.desired.body, "metadata", "finalizers") == [names.DOMAIN_FINALIZER]


@pytest.mark.parametrize(
    ("config", "issuer"),
    [
        (None, "ClusterIssuercluster-ca"),
        (CertificateConfig(cert_manager=CertManagerConfig(issuer_ref=IssuerRef(name="i", kind="k", group="g"))), "kig"),
    ],
)
def test_a_certificate_of_cert_manager_has_the_hash_of_name_and_issuer(
    config: CertificateConfig | None, issuer: str
) -> None:
    owner = domain(cert_config=config, meta={"annotations": {names.COMMON_NAME_ANNOTATION: "cn"}})
    credential = resources.credential(owner, "cert-manager.io", "cap-system", "istio-system")
    made = resources.cert_manager_certificate(owner, credential)
    assert made.hash == sha256(f"app.example.comshop--primary--one-cert-manageristio-systemcn{issuer}")
    assert made.address.key == ObjectKey("istio-system", "shop--primary--one")
    assert dig(made.desired.body, "spec", "commonName") == "cn"


@pytest.mark.req("R-912")
@pytest.mark.parametrize(
    ("reference", "allowed", "is_usable"),
    [
        (None, (), True),
        (IssuerRef(name="cluster-ca", kind="ClusterIssuer"), (), True),
        (IssuerRef(name="cluster-ca", kind="ClusterIssuer", group="cert-manager.io"), (), True),
        (IssuerRef(name="cluster-ca"), (), False),
        (IssuerRef(name="cluster-ca", kind="ClusterIssuer", group="example.com"), (), False),
        (IssuerRef(name="public", kind="ClusterIssuer"), (), False),
        (IssuerRef(name="public", kind="ClusterIssuer"), ("ClusterIssuer/public",), True),
        (IssuerRef(name="public", kind="Issuer"), ("ClusterIssuer/public",), False),
        (IssuerRef(name="public"), ("Issuer/public",), True),
        (IssuerRef(name="pca", kind="AWSIssuer", group="example.com"), ("AWSIssuer/pca",), False),
        (IssuerRef(name="pca", kind="AWSIssuer", group="example.com"), ("AWSIssuer.example.com/pca",), True),
        (IssuerRef(name="any", kind="Any", group="any"), ("*",), True),
    ],
)
def test_a_domain_uses_the_issuers_that_an_administrator_names(
    reference: IssuerRef | None, allowed: tuple[str, ...], is_usable: bool
) -> None:
    config = CertificateConfig(cert_manager=CertManagerConfig(issuer_ref=reference)) if reference else None
    assert resources.may_use(domain(cert_config=config), "istio-system", allowed) is is_usable
    assert resources.may_use(cluster_domain(cert_config=config), "istio-system", allowed)


@pytest.mark.req("R-912")
def test_an_issuer_of_the_domains_own_namespace_needs_no_administrator() -> None:
    def using(kind: str) -> CertificateConfig:
        return CertificateConfig(cert_manager=CertManagerConfig(issuer_ref=IssuerRef(name="own", kind=kind)))

    assert resources.may_use(domain(cert_config=using("Issuer")), "shop", ())
    assert not resources.may_use(domain(cert_config=using("Issuer")), "istio-system", ())
    assert not resources.may_use(domain(cert_config=using("ClusterIssuer")), "shop", ())


def test_a_name_that_is_cut_at_a_dash_is_one_that_kubernetes_accepts() -> None:
    long = domain(meta={"name": f"{'a' * 56}-b"})
    credential = resources.credential(long, "cert-manager.io", "cap-system", "istio-system")
    made = resources.cert_manager_certificate(long, credential)
    assert made.address.key.name == f"shop--{'a' * 56}"
    assert dig(made.desired.body, "spec", "secretName") == f"shop--{'a' * 56}--cert-manager"


def test_the_secret_with_further_authorities_has_the_hash_of_its_data() -> None:
    owner = domain(cert_config=CertificateConfig(additional_ca_certificate="pem"))
    (made,) = resources.ca_secrets(owner, CREDENTIAL)
    assert made.hash == sha256(f'{{"ca.crt":"{base64.b64encode(b"pem").decode()}"}}')
    assert made.address.key == ObjectKey("istio-system", "shop--primary--one-gardener-cacert")
    assert [*resources.ca_secrets(domain(), CREDENTIAL)] == []


def test_a_network_policy_has_the_hash_of_its_spec() -> None:
    made = resources.network_policy(domain(), KEY)
    text = (
        '{"podSelector":{"matchLabels":{"sme.sap.com/category":"Workload","sme.sap.com/exposed-workload":"true"}},'
        '"ingress":[{"from":[{"podSelector":{"matchLabels":{"app":"istio-ingressgateway","istio":"ingressgateway"}},'
        '"namespaceSelector":{}}]}],"policyTypes":["Ingress"]}'
    )
    assert made.hash == sha256(text)


def test_a_dns_entry_has_the_hash_of_name_target_and_application() -> None:
    made = resources.dns_entry(domain(), KEY, DnsRecord("one.app.example.com", "lb.example.com", "uid-app"))
    assert made.hash == sha256("one.app.example.comlb.example.comuid-app")
    metadata = made.desired.body["metadata"]
    assert dig(metadata, "labels", names.DNS_NAME_HASH_LABEL) == hashlib.sha1(b"one.app.example.com").hexdigest()
    assert dig(metadata, "annotations", "dns.gardener.cloud/class") == "garden"
    assert dig(made.desired.body, "spec") == {
        "dnsName": "one.app.example.com",
        "targets": ["lb.example.com"],
        "ttl": 600,
        "cnameLookupInterval": 30,
    }
