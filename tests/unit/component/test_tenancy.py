"""On a shared cluster a Component acts as somebody, and keeps to its own namespace."""

from __future__ import annotations

import pytest
from tests.unit.component.given import component

from stellwerk.operators.component.errors import (
    CrossNamespaceReference,
    InvalidSpec,
    ServiceAccountRequired,
    TargetNamespaceRefused,
)
from stellwerk.operators.component.settings import Mode, Settings
from stellwerk.operators.component.targets import tenancy
from stellwerk.operators.component.targets.tenancy import ActingAccount

STRICT = Settings(tenancy=Mode.STRICT)
NEAR = Settings(no_cross_namespace_refs=True)


def test_a_component_acts_as_its_own_account_else_as_the_default_one_else_as_the_operator() -> None:
    plain, named = component(), component(spec={"serviceAccountName": "deployer"})
    default = Settings(default_service_account="tenant")

    assert tenancy.account(plain, Settings()) is None
    found = [tenancy.account(one, default) for one in (plain, named)]
    assert [one.user for one in found if one] == [
        "system:serviceaccount:shop:tenant",
        "system:serviceaccount:shop:deployer",
    ]


@pytest.mark.req("R-501")
def test_strict_tenancy_refuses_components_that_would_act_as_the_operator() -> None:
    with pytest.raises(ServiceAccountRequired, match="--tenancy=strict"):
        tenancy.check(component(), STRICT)
    tenancy.check(component(spec={"serviceAccountName": "deployer"}), STRICT)
    tenancy.check(component(), Settings(tenancy=Mode.STRICT, default_service_account="tenant"))
    tenancy.check(component(), Settings())


@pytest.mark.req("R-502")
def test_references_to_other_namespaces_are_refused_where_that_is_switched_off() -> None:
    source = component(spec={"sourceRef": {"fluxBucket": {"namespace": "infra", "name": "b"}}})
    dependency = component(spec={"dependencies": [{"name": "near"}, {"namespace": "infra", "name": "dns"}]})

    with pytest.raises(CrossNamespaceReference, match=r"spec\.sourceRef\.fluxBucket names infra/b"):
        tenancy.check(source, NEAR)
    with pytest.raises(CrossNamespaceReference, match=r"spec\.dependencies\[1\] names infra/dns"):
        tenancy.check(dependency, NEAR)
    tenancy.check(component(spec={"dependencies": [{"namespace": "shop", "name": "near"}]}), NEAR)
    for one in (source, dependency):
        tenancy.check(one, Settings())


@pytest.mark.req("R-501")
@pytest.mark.req("R-509")
@pytest.mark.parametrize("deleting", [False, True])
def test_strict_tenancy_refuses_to_act_as_the_operator_on_every_way(deleting: bool) -> None:
    with pytest.raises(ServiceAccountRequired):
        tenancy.account(component(deleting=deleting), STRICT)
    with pytest.raises(ServiceAccountRequired):
        tenancy.require_account(None, STRICT)
    tenancy.require_account(ActingAccount("shop", "deployer"), STRICT)
    tenancy.require_account(None, Settings())


@pytest.mark.req("R-509")
@pytest.mark.parametrize("blank", ["", " ", "\t\n ", "\u00a0"])
def test_an_account_of_blanks_is_no_account(blank: str) -> None:
    strict = Settings(tenancy=Mode.STRICT, default_service_account=blank)
    with pytest.raises(ServiceAccountRequired):
        tenancy.check(component(spec={"serviceAccountName": blank}), strict)
    assert tenancy.account(component(spec={"serviceAccountName": blank}), Settings()) is None
    default = Settings(tenancy=Mode.STRICT, default_service_account="tenant")
    assert tenancy.account(component(spec={"serviceAccountName": blank}), default) == ActingAccount("shop", "tenant")


@pytest.mark.req("R-509")
@pytest.mark.parametrize(
    "name", ["a:b", "../kube-system:admin", "a/b", "a\r\nImpersonate-Group: system:masters", "A", "x" * 300, "a b", "é"]
)
def test_an_account_whose_name_can_be_none_is_refused(name: str) -> None:
    with pytest.raises(InvalidSpec, match=r"spec\.serviceAccountName: expected the name"):
        tenancy.account(component(spec={"serviceAccountName": name}), Settings())


@pytest.mark.req("R-509")
def test_a_deletion_without_an_account_names_the_command_that_helps() -> None:
    one = component(deleting=True)
    assert tenancy.advice(one).endswith(
        'kubectl -n shop patch component web --type merge -p \'{"spec":{"serviceAccountName":"ACCOUNT"}}\''
    )


@pytest.mark.req("R-506")
def test_namespaces_of_the_system_can_be_kept_out_as_targets() -> None:
    rules = Settings(refused_target_namespaces=("kube-system",))
    remote = component(spec={"namespace": "kube-system", "kubeConfig": {"secretRef": {"name": "remote"}}})

    with pytest.raises(TargetNamespaceRefused, match="namespace kube-system is not a place"):
        tenancy.check(component(spec={"namespace": "kube-system"}), rules)
    with pytest.raises(TargetNamespaceRefused):
        tenancy.check(component(namespace="kube-system"), rules)
    tenancy.check(component(), rules)
    tenancy.check(remote, rules)
