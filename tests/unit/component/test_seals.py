"""A seal is worth nothing to another Component, target or identity, and nothing fits without the key."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.unit.component.given import ITEM, component

from stellwerk.api.core import ConfigMap
from stellwerk.apply.objects.desired import Address, Desired
from stellwerk.apply.set.executor import ActionResult
from stellwerk.apply.set.model import inventory_codec
from stellwerk.apply.set.model.policy import UpdatePolicy
from stellwerk.apply.set.object_set import SetProgress
from stellwerk.apply.set.plan.actions import Create
from stellwerk.apply.set.plan.plan_input import Proof
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonValue
from stellwerk.operators.component.api import APPROVED_HOOKS_ANNOTATION, Component
from stellwerk.operators.component.api_status import NEW, ComponentStatus
from stellwerk.operators.component.component import status_plan
from stellwerk.operators.component.component.delete_hooks import Trust
from stellwerk.operators.component.errors import HooksNotSealed, ServiceAccountRequired, TargetNamespaceRefused
from stellwerk.operators.component.settings import Mode, Settings
from stellwerk.operators.component.targets import tenancy
from stellwerk.operators.component.targets.seals import KUBECONFIG, OPERATOR, Purpose, Scope, Signet
from stellwerk.operators.component.targets.tenancy import ActingAccount

KEY = b"k" * 32
USER = "system:serviceaccount:shop:deployer"
SCOPE = Scope(
    home="home", component=ObjectKey("shop", "web"), uid="uid-web", target=ObjectKey("shop", "web"), identity=USER
)
OTHERS: dict[str, Any] = {
    "home": "elsewhere",
    "component": ObjectKey("shop", "other"),
    "uid": "uid-other",
    "target": ObjectKey("kube-system", "web"),
    "cluster": "remote",
    "identity": OPERATOR,
}
SECRET = ObjectKey("shop", "web.delete-hooks")


@pytest.mark.req("R-509")
@pytest.mark.parametrize("bound", OTHERS)
def test_a_seal_of_hooks_fits_nowhere_but_where_it_was_made(bound: str) -> None:
    seal = Signet(KEY, SCOPE).seal(Purpose.HOOKS, b"hooks")
    assert Signet(KEY, SCOPE).fits(seal, Purpose.HOOKS, b"hooks")
    elsewhere = replace(SCOPE, **{bound: OTHERS[bound]})
    assert not Signet(KEY, elsewhere).fits(seal, Purpose.HOOKS, b"hooks")


@pytest.mark.req("R-509")
def test_a_seal_fits_no_other_content_purpose_or_key() -> None:
    signet = Signet(KEY, SCOPE)
    seal = signet.seal(Purpose.HOOKS, b"hooks")
    assert not signet.fits(seal, Purpose.HOOKS, b"hooks ")
    assert not signet.fits(seal, Purpose.IDENTITY)
    assert not signet.fits(signet.seal(Purpose.IDENTITY), Purpose.HOOKS)
    assert not Signet(b"x" * 32, SCOPE).fits(seal, Purpose.HOOKS, b"hooks")
    for forged in ("", "v1:", seal.upper(), seal + " ", seal[:-1], "\ud800", "ü" * 70):
        assert not signet.fits(forged, Purpose.HOOKS, b"hooks")


@pytest.mark.req("R-509")
def test_without_a_key_nothing_is_sealed_and_nothing_fits() -> None:
    keyless = Signet(None, SCOPE)
    assert keyless.seal(Purpose.HOOKS, b"hooks") == ""
    assert not keyless.fits("", Purpose.HOOKS, b"hooks")
    assert not keyless.fits(Signet(KEY, SCOPE).seal(Purpose.HOOKS, b"hooks"), Purpose.HOOKS, b"hooks")
    assert "k" * 32 not in repr(Signet(KEY, SCOPE))


# ---- the identity that applied


def recorded(identity: str, sealed_as: str = "") -> ComponentStatus:
    """A status that names an identity, with the seal of another one where that is asked for."""
    applied = status_plan.applied(holding(WRITTEN), Signet(KEY, replace(SCOPE, identity=sealed_as or identity)))
    return msgspec.structs.replace(applied, applied_as=identity)


def proved(status: ComponentStatus, key: bytes | None = KEY) -> str:
    return status_plan.proved_identity(status, Signet(key, replace(SCOPE, identity=status.applied_as)))


@pytest.mark.req("R-509")
def test_an_identity_in_a_status_counts_only_with_its_seal() -> None:
    assert proved(recorded(USER)) == USER
    assert proved(recorded(OPERATOR)) == OPERATOR
    assert proved(recorded(OPERATOR, sealed_as=USER)) == ""
    assert proved(recorded("system:serviceaccount:shop:admin", sealed_as=USER)) == ""
    assert proved(recorded(USER), None) == ""
    assert proved(NEW) == ""


@pytest.mark.req("R-509")
def test_an_edit_of_the_target_does_not_change_the_identity_that_applied() -> None:
    moved = replace(SCOPE, target=ObjectKey("elsewhere", "x"), cluster="remote")
    assert status_plan.proved_identity(recorded(USER), Signet(KEY, moved)) == USER


UNWRITTEN = ITEM | {"phase": "Creating"}
WRITTEN = ITEM | {"phase": "Ready", "uid": "uid-one"}


def holding(*items: dict[str, JsonValue], applied_as: str = "") -> ComponentStatus:
    """A status with an inventory, and a sealed identity if one is given."""
    listed: list[JsonValue] = [*items]
    status = component(status={"inventory": listed}).status
    return status_plan.applied(status, Signet(KEY, replace(SCOPE, identity=applied_as))) if applied_as else status


def came_to(status: ComponentStatus, *, done: bool, writes: bool) -> SetProgress:
    """What came of a pass over the objects of a status."""
    address = Address(ConfigMap.resource, ObjectKey("shop", "one"))
    action = Create(Desired(address, {}), UpdatePolicy.REPLACE)
    carried = (ActionResult(action, None),) if writes else ()
    return SetProgress(inventory_codec.read(status.inventory), done=done, carried=carried)


@pytest.mark.req("R-953")
def test_the_first_identity_is_recorded_after_its_first_write_and_another_after_its_last() -> None:
    first, second = Signet(KEY, SCOPE), Signet(KEY, replace(SCOPE, identity=OPERATOR))
    new, former = holding(UNWRITTEN), holding(WRITTEN, applied_as=USER)
    assert status_plan.acted(new, new, first, came_to(new, done=False, writes=False)) == new
    assert status_plan.acted(new, new, first, came_to(new, done=False, writes=True)).applied_as == USER
    assert status_plan.acted(former, former, second, came_to(former, done=False, writes=True)) == former
    assert status_plan.acted(former, former, second, came_to(former, done=True, writes=True)).applied_as == OPERATOR
    empty = holding()
    assert status_plan.acted(empty, empty, first, came_to(empty, done=True, writes=False)) == empty
    keyless = Signet(None, SCOPE)
    assert status_plan.acted(new, new, keyless, came_to(new, done=True, writes=True)) == new


@pytest.mark.req("R-953")
def test_an_identity_that_wrote_nothing_that_is_left_does_not_count() -> None:
    assert proved(holding(UNWRITTEN, applied_as=USER)) == ""
    assert proved(holding(applied_as=USER)) == ""
    for item in (WRITTEN, ITEM | {"phase": "Ready"}, UNWRITTEN | {"uid": "uid-one"}):
        assert proved(holding(UNWRITTEN, item, applied_as=USER)) == USER


@pytest.mark.req("R-953")
def test_another_identity_has_to_prove_its_rights_and_the_same_one_or_one_without_a_key_has_not() -> None:
    signet = Signet(KEY, SCOPE)
    assert status_plan.proof_of(USER, signet) is None
    assert status_plan.proof_of(OPERATOR, signet) == Proof(USER, of_all=True)
    assert status_plan.proof_of("", signet) == Proof(USER, of_all=False)
    assert status_plan.proof_of(OPERATOR, Signet(None, SCOPE)) is None


@pytest.mark.req("R-953")
def test_the_seal_of_the_hooks_that_were_applied_outlasts_any_number_of_attempts() -> None:
    status = status_plan.sealed(NEW, ["applied"])
    for attempt in range(5):
        status = status_plan.sealing(status, f"attempt {attempt}")
    assert status.delete_hook_seals == ("applied", "attempt 3", "attempt 4")


COMPATIBLE, STRICT = Settings(), Settings(tenancy=Mode.STRICT)
NAMING_NONE = component(deleting=True)
NAMING_OTHER = component(deleting=True, spec={"serviceAccountName": "other"})


@pytest.mark.req("R-509")
@pytest.mark.parametrize("one", [NAMING_NONE, NAMING_OTHER])
@pytest.mark.parametrize("rules", [COMPATIBLE, STRICT, Settings(default_service_account="default")])
def test_a_deletion_acts_as_the_account_that_applied_whatever_the_spec_names_now(
    one: Component, rules: Settings
) -> None:
    assert tenancy.account_of_deletion(one, rules, USER) == ActingAccount("shop", "deployer")


@pytest.mark.req("R-509")
def test_a_deletion_acts_as_the_operator_only_where_the_operator_applied_and_no_account_is_required() -> None:
    assert tenancy.account_of_deletion(NAMING_OTHER, COMPATIBLE, OPERATOR) is None
    assert tenancy.account_of_deletion(NAMING_OTHER, STRICT, OPERATOR) == ActingAccount("shop", "other")
    default = Settings(default_service_account="default")
    assert tenancy.account_of_deletion(NAMING_NONE, default, OPERATOR) == ActingAccount("shop", "default")
    with pytest.raises(ServiceAccountRequired):
        tenancy.account_of_deletion(NAMING_NONE, STRICT, OPERATOR)


@pytest.mark.req("R-509")
@pytest.mark.parametrize("applied_as", ["", KUBECONFIG, "system:serviceaccount:kube-system:admin", "root"])
def test_without_an_identity_of_its_own_namespace_the_spec_counts(applied_as: str) -> None:
    assert tenancy.account_of_deletion(NAMING_OTHER, COMPATIBLE, applied_as) == ActingAccount("shop", "other")
    assert tenancy.account_of_deletion(NAMING_NONE, COMPATIBLE, applied_as) is None
    with pytest.raises(ServiceAccountRequired):
        tenancy.account_of_deletion(NAMING_NONE, STRICT, applied_as)


# ---- delete hooks


def deleted(*seals: str, approved: bytes | None = None, **spec: str) -> Component:
    """A Component on its way out whose status holds seals."""
    notes = {APPROVED_HOOKS_ANNOTATION: hashlib.sha256(approved).hexdigest()} if approved is not None else {}
    return component(deleting=True, spec={**spec}, status={"deleteHookSeals": [*seals]}, annotations={**notes})


@pytest.mark.req("R-509")
def test_hooks_run_when_one_of_the_seals_fits_and_else_the_message_names_the_ways_out() -> None:
    signet = Signet(KEY, SCOPE)
    trust = Trust(signet, STRICT)
    old, new = (signet.seal(Purpose.HOOKS, packed) for packed in (b"old", b"new"))
    for packed in (b"old", b"new"):
        trust.check(deleted(old, new), SECRET, packed)
    for one in (deleted(old, new), deleted()):
        with pytest.raises(HooksNotSealed) as refused:
            trust.check(one, SECRET, b"edited")
        digest = hashlib.sha256(b"edited").hexdigest()
        assert f"annotate component web {APPROVED_HOOKS_ANNOTATION}={digest}" in str(refused.value)
        assert '{"spec":{"deleteHooks":"Skip"}}' in str(refused.value)


@pytest.mark.req("R-509")
def test_hooks_that_no_seal_fits_run_once_their_very_content_is_approved() -> None:
    trust = Trust(Signet(None, SCOPE), Settings(refused_target_namespaces=("kube-system",)))
    trust.check(deleted(approved=b"hooks"), SECRET, b"hooks")
    with pytest.raises(HooksNotSealed):
        trust.check(deleted(approved=b"hooks"), SECRET, b"others")
    with pytest.raises(TargetNamespaceRefused):
        trust.check(deleted(approved=b"hooks", namespace="kube-system"), SECRET, b"hooks")


@pytest.mark.req("R-509")
def test_while_hooks_are_replaced_former_ones_may_run_and_afterwards_only_the_new_ones() -> None:
    status = status_plan.sealing(status_plan.sealing(status_plan.sealing(NEW, "a"), "b"), "c")
    assert status.delete_hook_seals == ("a", "b", "c")
    assert status_plan.sealing(status, "c") is status
    assert status_plan.sealed(status, ["c"]).delete_hook_seals == ("c",)
    assert status_plan.sealed(status, []).delete_hook_seals == ()
