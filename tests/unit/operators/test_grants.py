"""The rights of an operator are told once, and its roles, bindings and rare occasions follow from that."""

from __future__ import annotations

from stellwerk.api.rbac import PolicyRule
from stellwerk.delivery import grants
from stellwerk.delivery.grants import OperatorAccount, grant
from stellwerk.kube.types.model import dig
from stellwerk.operators.btp import rights as btp
from stellwerk.operators.component import rights as component
from stellwerk.runtime.access.permission_check import Need

GROUP = "coordination.k8s.io"
LEASES = grant(GROUP, "leases leases/status", "get patch", "nobody leads", patch="it is renewed")


def test_an_occasion_is_known_for_each_resource_of_a_grant() -> None:
    assert grants.occasions([LEASES, grant("", "pods", "list", "nothing is seen")]) == {
        ("coordination.k8s.io", "leases", "patch"): "it is renewed",
        ("coordination.k8s.io", "leases/status", "patch"): "it is renewed",
    }


def test_an_account_is_given_a_role_everywhere_or_in_its_own_namespace() -> None:
    account = OperatorAccount("me", "home")
    everywhere = account.is_given_everywhere("reader", binding="mine")
    at_home = account.is_given_at_home("reader", binding="mine")
    assert (everywhere["kind"], dig(everywhere, "roleRef", "kind")) == ("ClusterRoleBinding", "ClusterRole")
    assert (at_home["kind"], dig(at_home, "roleRef", "kind")) == ("RoleBinding", "Role")
    assert dig(at_home, "metadata", "namespace") == "home"
    assert everywhere["subjects"] == [{"kind": "ServiceAccount", "name": "me", "namespace": "home"}]
    assert at_home["subjects"] == everywhere["subjects"]


def test_a_role_that_is_added_to_others_says_so_by_its_label() -> None:
    body = grants.cluster_role("seen", [LEASES.rule], **{grants.added_to("view"): "true"})
    assert dig(body, "metadata", "labels") == {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    assert "rules" not in grants.collecting_role("all", "example.com/part")


def test_each_right_of_a_grant_can_be_asked_about_and_says_what_fails_without_it() -> None:
    assert grants.needs([LEASES], at_home=True) == tuple(
        Need("coordination.k8s.io", resource, verb, purpose, at_home=True)
        for resource in ("leases", "leases/status")
        for verb, purpose in (("get", "nobody leads"), ("patch", "nobody leads; needed when it is renewed"))
    )


def test_a_right_is_granted_by_any_rule_with_its_words_or_wildcards_and_without_another_name() -> None:
    wanted = [LEASES.rule]
    assert grants.lacking(wanted, [LEASES.rule]) == ()
    assert grants.lacking(wanted, [grants.rule("*", "*", "*")]) == ()
    assert [str(need) for need in grants.lacking(wanted, [grants.rule(GROUP, "leases */status", "patch")])] == [
        "get leases.coordination.k8s.io",
        "get leases.coordination.k8s.io/status",
    ]
    assert [str(need) for need in grants.lacking(wanted, [grants.rule(GROUP, "leases", "*")])] == [
        "get leases.coordination.k8s.io/status",
        "patch leases.coordination.k8s.io/status",
    ]
    named = grants.grant_on("mine", GROUP, "leases", "get", "nobody leads").rule
    other = grants.grant_on("other", GROUP, "leases", "get", "nobody leads").rule
    assert grants.lacking([named], [LEASES.rule]) == ()
    assert [str(need) for need in grants.lacking([named], [other])] == ["get leases.coordination.k8s.io mine"]
    assert len(grants.lacking(wanted, [named])) == 4
    assert len(grants.lacking(wanted, [grants.rule("", "leases leases/status", "*")])) == 4


def test_every_operator_asks_about_just_the_rights_that_its_role_grants() -> None:
    for rules, rights in ((btp.RULES, btp.RIGHTS), (component_rules(), component.RIGHTS)):
        granted = {
            (group, name, verb)
            for one in rules
            for group in one.api_groups
            for name in one.resources
            for verb in one.verbs
        }
        assert {(need.group, need.resource, need.verb) for need in rights.needs} == granted
        assert len(rights.needs) == len(granted), "none is asked about twice"


def component_rules() -> list[PolicyRule]:
    return [one.rule for one in (*component.GRANTS, *component.LEASES)]
