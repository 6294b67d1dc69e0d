"""What an application needs next, and the order of versions."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.kube.types.semantic_version import precedence
from stellwerk.operators.cap import names
from stellwerk.operators.cap.application import plan
from stellwerk.operators.cap.application.plan import (
    ApplicationSnapshot,
    CreateProvider,
    Decision,
    DeleteTenants,
    Prepare,
    Release,
    RestoreContext,
    SetVersions,
)
from stellwerk.operators.cap.application.refusals import Tried
from stellwerk.operators.cap.kinds.application import ApplicationStatus, CAPApplication, DomainRef, TenantUpgrade
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.tenant.subscription_objects import of_provider
from stellwerk.runtime import conditions
from stellwerk.runtime.reconciler import Severity

NOW = datetime(2026, 1, 1, tzinfo=UTC)
READY: JsonObject = {"type": "Ready", "status": "True", "reason": "Ready", "message": "ready"}


def an_application(*, deleted: bool = False, **status: JsonValue) -> CAPApplication:
    """A prepared application with this status."""
    application = given.application(provider=None)
    write = plan.decide(ApplicationSnapshot(application=application), NOW).write
    assert isinstance(write, Prepare)
    extra: JsonObject = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleted else {}
    metadata = msgspec.convert(given.metadata("bookshop", **{**write.lacking, **extra}), type(application.metadata))
    shown: JsonObject = {"state": "Processing", "observedGeneration": 1, "servicesOnly": False, **status}
    return msgspec.structs.replace(application, metadata=metadata, status=msgspec.convert(shown, ApplicationStatus))


def a_version(number: str, *, ready: bool = True) -> CAPApplicationVersion:
    version = given.version(name=f"bookshop-v{number}", version=number)
    status: JsonObject = {"conditions": [READY]} if ready else {}
    return msgspec.structs.replace(version, status=msgspec.convert(status, type(version.status)))


def a_tenant(
    version: str, state: str = "Ready", strategy: str = "", kind: str = "consumer", *, name: str = "acme", has: str = ""
) -> CAPTenant:
    """A tenant that is to have a version, and that `has` the version object of this name."""
    tenant = given.tenant(name, kind)
    spec = msgspec.structs.replace(tenant.spec, version=version, version_upgrade_strategy=strategy)
    status: JsonObject = {"state": state, "conditions": [READY] if state == "Ready" else []}
    status["currentCAPApplicationVersionInstance"] = has
    return msgspec.structs.replace(tenant, spec=spec, status=msgspec.convert(status, type(tenant.status)))


def still_serving(state: str) -> CAPTenant:
    """A tenant whose upgrade runs or has failed: it keeps its condition Ready."""
    tenant = a_tenant("1")
    return msgspec.structs.replace(tenant, status=msgspec.structs.replace(tenant.status, state=state))


def decided(
    application: CAPApplication, *versions: CAPApplicationVersion, tenants: tuple[CAPTenant, ...] = ()
) -> Decision:
    return plan.decide(ApplicationSnapshot(application=application, versions=versions, tenants=tenants), NOW)


def reason(decision: Decision, condition: str = "Ready") -> str:
    assert decision.status is not None
    shown = conditions.find(decision.status.conditions, condition)
    assert shown is not None
    return shown.reason


def test_versions_are_ordered_as_semantic_versioning_asks() -> None:
    ordered = [
        "nonsense",
        "0.9",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1",
        "1.0.1",
        "1.10",
        "2",
    ]

    for lower, higher in itertools.pairwise(ordered):
        assert precedence(lower) < precedence(higher), (lower, higher)
    assert precedence("1") == precedence("1.0") == precedence("1.0.0+build")


@pytest.mark.parametrize("form", ["{}.0.0", "1.0.0-{}"])
def test_versions_of_thousands_of_digits_are_ordered_as_numbers(form: str) -> None:
    small, large = form.format("9" * 5000), form.format("1" + "0" * 5000)
    assert precedence(small) < precedence(large)
    assert precedence(form.format("2")) < precedence(small)


def test_an_application_without_an_account_is_in_error() -> None:
    decision = plan.decide(ApplicationSnapshot(application=given.application(providerSubaccountId="")), NOW)

    assert reason(decision) == "MissingProviderSubaccountId"
    assert decision.write is None


def test_a_new_application_gets_its_metadata_before_any_status() -> None:
    decision = plan.decide(ApplicationSnapshot(application=given.application()), NOW)

    assert isinstance(decision.write, Prepare)
    assert decision.status is None


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"state": ""}, "ApplicationProcessing"),
        ({"state": "Consistent", "observedGeneration": 0}, "ResourceDefinitionChanged"),
    ],
)
def test_a_new_or_changed_application_is_processed_first(status: JsonObject, expected: str) -> None:
    decision = decided(an_application(deleted=False, **status), a_version("1"))

    assert (reason(decision), decision.again) == (expected, True)
    assert decision.status is not None
    assert decision.status.observed_generation == 1


def test_an_application_without_domains_shows_that_it_has_no_hosts_with_its_first_status() -> None:
    decision = decided(an_application(state=""))
    assert decision.status is not None
    assert decision.status.domain_spec_hash == "{}"
    refers = msgspec.structs.replace(
        an_application(state="").spec, domain_refs=(DomainRef(kind="Domain", name="primary"),)
    )
    waits = decided(msgspec.structs.replace(an_application(state=""), spec=refers))
    assert waits.status is not None
    assert waits.status.domain_spec_hash == ""


def test_a_repeated_report_sends_no_event() -> None:
    snapshot = ApplicationSnapshot(application=an_application(), missing_secrets=("a", "b"))
    first = plan.decide(snapshot, NOW)
    assert first.status is not None
    shown = msgspec.structs.replace(snapshot.application, status=first.status)
    second = plan.decide(ApplicationSnapshot(application=shown, missing_secrets=("a", "b")), NOW)

    assert [notice.reason for notice in first.notices] == ["MissingSecrets"]
    assert second.notices == ()
    assert second.status == first.status


@pytest.mark.parametrize("state", ["Processing", "Consistent", "Error"])
def test_an_application_without_a_secret_keeps_its_state_and_is_not_ready(state: str) -> None:
    snapshot = ApplicationSnapshot(
        application=an_application(state=state), versions=(a_version("1"),), missing_secrets=("uaa-secret",)
    )
    decision = plan.decide(snapshot, NOW)
    assert decision.status is not None
    assert decision.status.state == state
    assert reason(decision) == "ProcessingSecrets"
    assert not conditions.is_true(decision.status.conditions, "Ready")


def test_the_time_of_completion_changes_only_when_an_application_becomes_consistent() -> None:
    status = decided(an_application(), a_version("1")).status
    assert status is not None
    assert (status.state, status.last_full_reconciliation_time) == ("Consistent", NOW)
    consistent = msgspec.structs.replace(an_application(), status=status)
    seen = ApplicationSnapshot(application=consistent, versions=(a_version("1"), a_version("2")))
    later = plan.decide(seen, NOW + timedelta(hours=1)).status
    assert later is not None
    assert later != status
    assert later.last_full_reconciliation_time == NOW


def test_secrets_that_cannot_be_read_are_not_taken_for_missing() -> None:
    seen = ApplicationSnapshot(application=an_application(), versions=(a_version("1"),), unknown_secrets="no right")
    decision = plan.decide(seen, NOW)
    assert decision.status is not None
    assert (reason(decision), decision.status.state) == ("ProcessingSecretsError", "Error")
    assert decision.has_failed


def test_subdomains_stay_while_a_tenant_or_version_cannot_be_read() -> None:
    shown = an_application(state="Consistent", observedSubdomains=["hidden"])
    seen = ApplicationSnapshot(application=shown, versions=(a_version("1"),), tenants=(a_tenant("1"),))
    assert plan.observed_subdomains(seen) == ("acme",)
    odd = (ObjectKey("shop", "odd"),)
    for hidden in (replace(seen, hidden_tenants=odd), replace(seen, hidden_versions=odd)):
        assert plan.observed_subdomains(hidden) == ("acme", "hidden")


def test_an_application_stays_ready_while_a_domain_cannot_be_read_and_waits_for_one_that_is_absent() -> None:
    domains = (DomainRef(kind="Domain", name="odd"), DomainRef(kind="ClusterDomain", name="wide"))
    shown = an_application(state="Consistent", conditions=[READY])
    shown = msgspec.structs.replace(shown, spec=msgspec.structs.replace(shown.spec, domain_refs=domains))
    seen = ApplicationSnapshot(application=shown, hidden_domains=domains)
    decision = plan.decide(seen, NOW)

    assert decision.status is not None
    ready = decision.status.conditions[0]
    assert (decision.status.state, ready.status, decision.notices) == ("Consistent", "True", ())
    assert ready.message == (
        "waiting for domains that cannot be read: Domain odd, ClusterDomain wide; next: stellwerk why dom/odd -n shop"
    )
    absent = plan.decide(replace(seen, hidden_domains=domains[1:]), NOW)
    assert absent.status is not None
    assert absent.status.state == "Processing"
    assert absent.status.conditions[0].message == (
        "waiting for domains: Domain odd, which does not exist (there are none): create it, or correct "
        "spec.domainRefs. See them with: kubectl get domains -n shop"
    )
    offered = tuple(DomainRef(kind="Domain", name=name) for name in "gfedcba")
    both = plan.decide(replace(seen, hidden_domains=(), offered_domains=offered), NOW)
    assert both.status is not None
    assert both.status.conditions[0].message == (
        "waiting for domains: Domain odd, ClusterDomain wide, which do not exist or do not serve namespace shop (there "
        "are Domain a, Domain b, Domain c, Domain d, Domain e and 2 more): create it, or correct spec.domainRefs. See "
        "them with: kubectl get domains -n shop, kubectl get clusterdomains. An administrator names the namespaces "
        "that it serves, with commas between them: kubectl annotate clusterdomain wide sme.sap.com/served-namespaces="
        "NAMESPACES --overwrite"
    )
    assert [each.reason for each in absent.notices] == ["MissingDomainReferences"]


def test_an_application_without_a_ready_version_waits_for_one() -> None:
    decision = decided(an_application(), a_version("1", ready=False))

    assert reason(decision) == "WaitingForReadyCAPApplicationVersion"
    assert reason(decision, "LatestVersionReady") == "WaitingForReadyCAPApplicationVersion"
    assert decision.status is not None
    assert decision.status.conditions[0].message.endswith("that is Ready; next: stellwerk get cav -n shop")


def test_the_provider_gets_a_tenant_with_the_highest_ready_version() -> None:
    application = an_application()
    spec = given.application().spec
    decision = decided(
        msgspec.structs.replace(application, spec=spec), a_version("1"), a_version("2"), a_version("3", ready=False)
    )

    assert decision.write == CreateProvider(a_version("2"))
    assert reason(decision) == "ProviderTenantProcessing"


def test_the_payload_that_a_provider_has_lost_is_created_again_before_anything_else_of_it() -> None:
    application = msgspec.structs.replace(an_application(), spec=given.application().spec)
    tenant = a_tenant("1", "ProvisioningError", kind="provider", name=names.provider_name(application))
    payload, _ = of_provider(application, "1")
    seen = ApplicationSnapshot(application=application, versions=(a_version("1"),), tenants=(tenant,))
    assert plan.decide(replace(seen, lost_context=payload), NOW).write == RestoreContext(payload)
    assert plan.decide(seen, NOW).write is None


@pytest.mark.parametrize("state", ["UpgradeError", "ProvisioningError"])
def test_a_provider_that_has_failed_holds_its_version_back_and_follows_to_a_corrected_one(state: str) -> None:
    application = msgspec.structs.replace(an_application(), spec=given.application().spec)
    name = names.provider_name(application)

    def provider(version: str) -> CAPTenant:
        found = a_tenant(version, state, kind="provider")
        return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, name=name))

    consumer = a_tenant("1")
    assert reason(decided(application, a_version("2"), tenants=(provider("2"), consumer))) == "ProviderTenantError"
    corrected = decided(application, a_version("2"), a_version("3"), tenants=(provider("2"), consumer))
    assert corrected.write == SetVersions([provider("2"), consumer], "3")


@pytest.mark.parametrize("version", ["2", "3"])
def test_a_provider_that_never_follows_keeps_no_other_tenant_waiting_once_it_has_a_version(version: str) -> None:
    application = msgspec.structs.replace(an_application(), spec=given.application().spec)
    name, other = names.provider_name(application), a_tenant("1")

    def with_provider(state: str, has: str, *, ready: bool = False) -> Decision:
        found = a_tenant(version, state, "never", "provider", name=name, has=has)
        shown = still_serving(state).status.conditions if ready else ()
        provider = msgspec.structs.replace(found, status=msgspec.structs.replace(found.status, conditions=shown))
        return decided(application, a_version("1"), a_version("2"), a_version("3"), tenants=(provider, other))

    assert with_provider("UpgradeError", "bookshop-v1", ready=True).write == SetVersions([other], "3")
    unready = with_provider("UpgradeError", "bookshop-v1")
    assert reason(unready) == "ProviderTenantProcessing", "it is not Ready"
    assert unready.status is not None
    assert unready.status.conditions[0].message.endswith(f"next: stellwerk why cat/{name} -n shop")
    assert reason(with_provider("ProvisioningError", "")) == "ProviderTenantError"


def test_tenants_that_may_move_follow_to_the_highest_ready_version() -> None:
    due = a_tenant("1")
    others = (a_tenant("1", "Upgrading"), a_tenant("1", strategy="never"), a_tenant("2"), a_tenant("1", "Provisioning"))
    decision = decided(an_application(), a_version("1"), a_version("2"), tenants=(due, *others))

    assert decision.write == SetVersions([due], "2")
    assert reason(decision) == "NewCAVTriggeredTenantUpgrade"
    assert reason(decision, "AllTenantsReady") == "NotAllTenantsReady"


@pytest.mark.parametrize(
    ("tenant", "expected"),
    [
        (a_tenant("1"), "AllTenantsReady"),
        (a_tenant("1", "UpgradeError"), "NotAllTenantsReady"),
        (a_tenant("1", "Upgrading"), "NotAllTenantsReady"),
        (still_serving("UpgradeError"), "NotAllTenantsReady"),
        (still_serving("Upgrading"), "NotAllTenantsReady"),
    ],
)
def test_a_consistent_application_shows_whether_all_tenants_are_ready(tenant: CAPTenant, expected: str) -> None:
    decision = decided(an_application(), a_version("1"), tenants=(tenant,))

    assert reason(decision) == "VersionExists"
    assert reason(decision, "AllTenantsReady") == expected


def test_a_consistent_application_shows_how_many_tenants_have_its_version_and_why_an_upgrade_is_paused() -> None:
    tenants = [a_tenant("1", name=name, has="bookshop-v1") for name in ("best", "cold")]
    waves = msgspec.structs.replace(
        an_application(), spec=given.application(provider=None, tenantUpgrade={"canaryTenants": ["acme"]}).spec
    )

    def message(*others: CAPTenant, application: CAPApplication = waves) -> str:
        decision = decided(application, a_version("1"), a_version("2"), tenants=(*tenants, *others))
        assert decision.status is not None
        assert reason(decision) == "VersionExists"
        return decision.status.conditions[0].message

    failed = a_tenant("2", "UpgradeError", name="acme", has="bookshop-v1")
    resume = "Resume it with: stellwerk cap upgrade bookshop -n shop --resume"
    assert message(failed) == (
        "version 2 is the newest that is Ready: 0 of 3 tenants have it; the upgrade to version 2 is paused: "
        f"1 tenant has failed. {resume}"
    )
    missing = "spec.tenantUpgrade.canaryTenants names no tenant that exists: acme"
    assert message() == (
        "version 2 is the newest that is Ready: 0 of 2 tenants have it; the upgrade to version 2 is paused: "
        f"{missing}. {resume}"
    )
    canary = a_tenant("2", "Upgrading", name="acme", has="bookshop-v1")
    assert message(canary) == "version 2 is the newest that is Ready: 0 of 3 tenants have it"
    tenants = [a_tenant("2", name=name, has="bookshop-v2") for name in ("best", "cold")]
    assert message() == "version 2 is in use"
    assert message(a_tenant("2", "Provisioning"), application=an_application()) == (
        "version 2 is the newest that is Ready: 2 of 3 tenants have it"
    )


def test_a_misspelt_canary_beside_one_that_exists_is_named_with_what_exists() -> None:
    def message(*canaries: str, tenants: Sequence[CAPTenant]) -> str:
        spec = given.application(provider=None, tenantUpgrade={"canaryTenants": [*canaries]}).spec
        application = msgspec.structs.replace(an_application(), spec=spec)
        decision = decided(application, a_version("1"), tenants=tuple(tenants))
        assert decision.status is not None
        return decision.status.conditions[0].message

    tenants = [a_tenant("1", name=name, has="bookshop-v1") for name in ("acme", "best", "cold")]
    assert message("acme", "best", tenants=tenants) == "version 1 is in use"
    assert message("colt", tenants=tenants) == "version 1 is in use", "an upgrade pauses, and names it"
    assert message("acme", "colt", "xy", tenants=tenants) == (
        "version 1 is in use. spec.tenantUpgrade.canaryTenants of CAPApplication shop/bookshop has 'colt' (nearest: "
        "cold), 'xy': no name and no tenant id of its tenants (there are acme, best, cold), so no upgrade waits for "
        "it. Correct it with: kubectl edit ca bookshop -n shop"
    )
    old = [a_tenant("1", name=name, has="bookshop-v0") for name in ("acme", "best")]
    assert "'bst' (nearest: best)" in message("acme", "bst", tenants=old)


@pytest.mark.parametrize(("count", "shown"), [(1, "1 tenant"), (2, "2 tenants")])
def test_a_deletion_counts_the_tenants_that_it_waits_for(count: int, shown: str) -> None:
    tenants = [a_tenant("1", name=name) for name in ("a", "b")[:count]]
    application = an_application(deleted=True, state="Deleting")
    decision = decided(application, a_version("1"), tenants=tuple(tenants))
    assert decision.status is not None
    assert decision.status.conditions[0].message.startswith(f"waiting for {shown} to be deleted: ")


def test_a_newer_version_that_is_not_ready_is_shown_and_moves_nobody() -> None:
    decision = decided(an_application(), a_version("1"), a_version("2", ready=False), tenants=(a_tenant("1"),))

    assert decision.write is None
    assert reason(decision, "LatestVersionReady") == "LatestVersionNotReady"


HIDDEN = (ObjectKey("shop", "bookshop-v2"),)


def without_version() -> CAPTenant:
    """A tenant whose own first pass has given it no version."""
    tenant = a_tenant("", "")
    metadata = msgspec.structs.replace(tenant.metadata, name="new", finalizers=(names.TENANT_FINALIZER,))
    return msgspec.structs.replace(tenant, metadata=metadata)


def being_deleted(version: CAPApplicationVersion) -> CAPApplicationVersion:
    metadata = msgspec.structs.replace(version.metadata, deletion_timestamp=NOW)
    return msgspec.structs.replace(version, metadata=metadata)


def test_a_tenant_stays_at_a_version_that_cannot_be_read_and_all_others_follow() -> None:
    shown = an_application(state="Consistent", conditions=[READY])
    acme, new = a_tenant("2", has="bookshop-v2"), without_version()
    seen = ApplicationSnapshot(application=shown, versions=(a_version("1"),), tenants=(acme,), hidden_versions=HIDDEN)
    decision = plan.decide(seen, NOW)

    assert (decision.write, decision.exposes) == (None, None)
    assert decision.status is not None
    assert decision.status.state == "Consistent"
    assert conditions.is_true(decision.status.conditions, "Ready")
    assert conditions.find(decision.status.conditions, "LatestVersionReady") is None, "it is not known"
    assert reason(decision, "AllTenantsReady") == "AllTenantsReady"
    assert decision.status.conditions[0].message == (
        "version 1 is the newest that is Ready: 0 of 1 tenants have it. 1 tenant stays above version 1: acme; "
        "CAPApplicationVersion shop/bookshop-v2 cannot be read; next: stellwerk why cav/bookshop-v2 -n shop. They "
        "follow to a newer version, and to 1 with: stellwerk "
        "cap upgrade bookshop --to 1 -n shop. Service exposures stay as they are: waiting for versions that cannot be "
        "read: shop/bookshop-v2; next: stellwerk why cav/bookshop-v2 -n shop"
    )
    old = a_tenant("0", name="best", has="bookshop-v0")
    others = replace(seen, tenants=(acme, old, new), versions=(a_version("0"), a_version("1")))
    assert plan.decide(others, NOW).write == SetVersions([old, new], "1")
    newer = plan.decide(replace(seen, versions=(a_version("1"), a_version("3"))), NOW)
    assert (newer.write, newer.exposes) == (SetVersions([acme], "3"), None)
    gone = plan.decide(replace(seen, hidden_versions=()), NOW)
    assert gone.write == SetVersions([acme], "1"), "the object of its version is gone"


def test_an_application_stays_as_it_is_while_its_only_version_cannot_be_read() -> None:
    seen = ApplicationSnapshot(application=an_application(), tenants=(a_tenant("2"),), hidden_versions=HIDDEN)
    waiting = plan.decide(seen, NOW)
    assert reason(waiting) == "WaitingForReadyCAPApplicationVersion"
    ready = an_application(state="Consistent", conditions=[READY])
    decision = plan.decide(replace(seen, application=ready), NOW)
    assert decision.status is not None
    assert (decision.status.state, reason(decision)) == ("Consistent", "VersionExists")
    assert conditions.is_true(decision.status.conditions, "Ready")


@pytest.mark.parametrize(
    ("current", "expected"), [("bookshop-v2", "ProviderTenantError"), ("bookshop-v1", "NewCAVTriggeredTenantUpgrade")]
)
def test_a_provider_stays_where_a_version_that_cannot_be_read_is_its_own(current: str, expected: str) -> None:
    application = msgspec.structs.replace(an_application(), spec=given.application().spec)
    provider = a_tenant("2", "UpgradeError", kind="provider", name=names.provider_name(application), has=current)
    seen = ApplicationSnapshot(
        application=application, versions=(a_version("1"),), tenants=(provider,), hidden_versions=HIDDEN
    )
    assert reason(plan.decide(seen, NOW)) == expected


@pytest.mark.parametrize("higher", [being_deleted(a_version("2")), a_version("2", ready=False)])
def test_no_tenant_follows_to_a_lower_version_than_it_has_and_all_others_follow(higher: CAPApplicationVersion) -> None:
    low, high = a_version("1"), a_version("1.5")
    stays = a_tenant("2", has="bookshop-v2", strategy="always")
    decision = decided(an_application(), low, high, higher, tenants=(stays,))

    assert (decision.write, decision.exposes) == (None, higher)
    assert decision.status is not None
    assert decision.status.state == "Consistent"
    assert reason(decision, "AllTenantsReady") == "AllTenantsReady"
    cause = (
        "is being deleted" if higher.metadata.is_terminating else "is not Ready; next: stellwerk why cav/bookshop-v2"
    )
    message = decision.status.conditions[0].message
    assert f"1 tenant stays above version 1.5: acme; CAPApplicationVersion shop/bookshop-v2 {cause}" in message
    assert "stellwerk cap upgrade bookshop --to 1.5 -n shop" in message

    pinned = a_tenant("2", strategy="never", name="best", has="bookshop-v2")
    failed = a_tenant("2", "UpgradeError", name="cold", has="bookshop-v1")
    old, new = a_tenant("1", name="dawn", has="bookshop-v1"), without_version()
    quiet = decided(an_application(), low, high, higher, tenants=(pinned,))
    assert quiet.status is not None
    message = "version 1.5 is the newest that is Ready: 0 of 1 tenants have it"
    assert (quiet.exposes, quiet.status.conditions[0].message) == (higher, message)
    all_ = (stays, pinned, failed, old, new)
    others = decided(an_application(), low, high, higher, tenants=all_)
    assert (others.write, others.exposes) == (SetVersions([failed, old, new], "1.5"), higher)
    assert others.status is not None
    assert "1 tenant stays above version 1.5: acme;" in others.status.conditions[0].message
    newer = decided(an_application(), low, higher, a_version("3"), tenants=(stays,))
    assert (newer.write, newer.exposes) == (SetVersions([stays], "3"), a_version("3"))
    asked = a_tenant("1.5", "Upgrading", has="bookshop-v2")
    assert decided(an_application(), low, high, higher, tenants=(asked,)).exposes == high, "a user moves it"


def test_tenants_that_have_no_lower_version_than_the_chosen_one_settle_while_a_higher_one_is_deleted() -> None:
    settled, ending = a_tenant("1", strategy="always", has="bookshop-v1"), being_deleted(a_version("2"))
    decision = decided(an_application(), a_version("1"), ending, tenants=(settled,))
    assert (decision.exposes, reason(decision, "AllTenantsReady")) == (a_version("1"), "AllTenantsReady")


def test_an_application_for_services_names_its_exposures_while_a_version_cannot_be_read() -> None:
    version = given.version(given.deployment("srv", "Service"), name="bookshop-v1", version="1")
    version = msgspec.structs.replace(version, status=a_version("1").status)
    application = an_application(servicesOnly=True)
    decision = plan.decide(
        ApplicationSnapshot(application=application, versions=(version,), hidden_versions=HIDDEN), NOW
    )
    assert decision.status is not None
    assert (decision.exposes, "tenant" in decision.status.conditions[0].message) == (None, False)
    assert "Service exposures stay as they are" in decision.status.conditions[0].message


def test_a_deletion_takes_the_provider_and_waits_for_the_others() -> None:
    application = an_application(deleted=True, state="Deleting")
    provider, consumer = a_tenant("1", kind="provider"), a_tenant("1")

    assert decided(application, tenants=(provider, consumer)).write == DeleteTenants([provider])
    assert reason(decided(application, tenants=(consumer,))) == "TenantsExist"
    assert decided(application, tenants=(consumer,)).write is None
    assert decided(application).write == Release()
    assert reason(decided(an_application(deleted=True), tenants=(consumer,))) == "DeleteTriggered"


@pytest.mark.req("R-510")
def test_a_deletion_waits_for_tenants_that_cannot_be_read_with_the_next_step() -> None:
    application, hidden = an_application(deleted=True, state="Deleting"), (ObjectKey("shop", "acme"),)
    decision = plan.decide(ApplicationSnapshot(application=application, hidden_tenants=hidden), NOW)
    assert (decision.write, reason(decision)) == (None, "TenantsExist")
    assert decision.status is not None
    assert "stellwerk why cat/acme -n shop" in decision.status.conditions[0].message


def test_a_deletion_takes_all_tenants_along_where_a_user_asks_for_it() -> None:
    application = an_application(deleted=True, state="Deleting")
    marked = msgspec.structs.replace(application.metadata, annotations={"sme.sap.com/delete-tenants": "true"})
    provider, consumer = a_tenant("1", kind="provider"), a_tenant("1")

    decision = decided(msgspec.structs.replace(application, metadata=marked), tenants=(provider, consumer))

    assert decision.write == DeleteTenants([provider, consumer])
    assert reason(decision) == "TenantsExist"


def with_secrets_ending(application: CAPApplication, **ending: tuple[str, ...]) -> Decision:
    seen = ApplicationSnapshot(application=application, versions=(a_version("1"),), ending_secrets=ending)
    return plan.decide(seen, NOW)


def test_a_secret_in_use_that_is_being_deleted_is_shown_and_reported_once() -> None:
    decision = with_secrets_ending(an_application(), uaa=("example.com/backup",))

    assert decision.status is not None
    assert reason(decision, "SecretsAvailable") == "SecretBeingDeleted"
    assert reason(decision) == "VersionExists"
    assert [notice.reason for notice in decision.notices] == ["SecretBeingDeleted"]
    shown = msgspec.structs.replace(an_application(), status=decision.status)
    assert with_secrets_ending(shown, uaa=("example.com/backup",)).notices == ()
    assert reason(with_secrets_ending(shown), "SecretsAvailable") == "SecretsAvailable"


def test_an_application_of_which_no_secret_is_deleted_does_not_show_that() -> None:
    status = with_secrets_ending(an_application()).status

    assert status is not None
    assert conditions.find(status.conditions, "SecretsAvailable") is None


def test_a_version_for_tenants_fails_in_an_application_for_services() -> None:
    decision = decided(an_application(servicesOnly=True), a_version("1"))

    assert decision.has_failed
    assert reason(decision, "LatestVersionReady") == "LatestVersionNotReady"
    assert [notice.severity for notice in decision.notices] == [Severity.WARNING]


NOTHING_TRIED, REFUSED = Tried(), Tried(is_refused=True)


def with_a_refusal(
    seen: ApplicationSnapshot, tried: Tried = NOTHING_TRIED, *, now: datetime = NOW, seconds: float | None = 50.0
) -> Decision:
    """The decision where the move of a tenant to version 2 was refused and is tried again after these seconds."""
    if seconds is not None and tried != REFUSED:
        seen = replace(seen, refused_tenants={ObjectKey("shop", "acme"): "moved to version 2"})
    return plan.with_refusals(seen, plan.decide(seen, now), "acme: denied", now, tried, again_seconds=seconds)


def showing(seen: ApplicationSnapshot, decision: Decision) -> ApplicationSnapshot:
    """What is seen when the application has the status of the decision."""
    assert decision.status is not None
    return replace(seen, application=msgspec.structs.replace(seen.application, status=decision.status))


def test_a_refused_tenant_is_shown_also_where_no_other_one_is_due_and_the_status_does_not_change_again() -> None:
    versions, acme, best = (a_version("1"), a_version("2")), a_tenant("1"), a_tenant("1", name="best")
    seen = ApplicationSnapshot(application=an_application(), versions=versions, tenants=(acme, best))
    tried = with_a_refusal(seen, Tried(is_changed=True, is_refused=True))
    assert (tried.write, tried.due, tried.again) == (SetVersions([best], "2"), [acme, best], True)
    assert "NewCAVTriggeredTenantUpgrade" in [each.reason for each in tried.notices], "no Event is lost"

    rests = replace(seen, tenants=(acme, a_tenant("2", name="best")))
    first = with_a_refusal(rests)
    assert (first.write, reason(first), first.again_seconds) == (None, "TenantChangeRefused", 50.0)
    assert [each.reason for each in first.notices] == ["TenantChangeRefused"]
    assert (first.has_failed, reason(first, "AllTenantsReady")) == (False, "NotAllTenantsReady")
    assert first.status is not None
    assert first.status.state == "Error"
    second = with_a_refusal(showing(rests, first), now=NOW + timedelta(seconds=7))
    assert (second.status, second.notices) == (first.status, ())


def in_waves(*tenants: CAPTenant, **policy: JsonValue) -> ApplicationSnapshot:
    """A consistent application whose tenants follow to version 2 in waves."""
    application = an_application(state="Consistent", conditions=[READY])
    spec = msgspec.structs.replace(application.spec, tenant_upgrade=msgspec.convert(policy, TenantUpgrade))
    application = msgspec.structs.replace(application, spec=spec)
    return ApplicationSnapshot(application=application, versions=(a_version("1"), a_version("2")), tenants=tenants)


def test_a_shown_refusal_keeps_its_status_when_time_passes_and_when_the_tenant_is_refused_again() -> None:
    seen = in_waves(a_tenant("1", has="bookshop-v1"), a_tenant("2", has="bookshop-v2", name="best"), maxParallel=1)
    first = with_a_refusal(seen)
    shown, minute = showing(seen, first), NOW + timedelta(seconds=60)
    assert with_a_refusal(shown, now=NOW + timedelta(seconds=7)).status == first.status
    again = with_a_refusal(shown, REFUSED, now=minute)
    assert (again.status, again.notices, again.again) == (first.status, (), True)


def test_a_move_is_an_event_only_where_a_tenant_was_moved() -> None:
    seen = ApplicationSnapshot(application=an_application(), versions=(a_version("2"),), tenants=(a_tenant("1"),))
    assert [each.reason for each in with_a_refusal(seen, REFUSED).notices] == ["TenantChangeRefused"]


def test_a_tenant_whose_time_comes_during_a_pass_is_tried_in_another_one() -> None:
    seen = in_waves(a_tenant("1", has="bookshop-v1"))
    seen = replace(seen, refused_tenants={ObjectKey("shop", "acme"): "moved to version 2"})
    decision = plan.with_refusals(seen, plan.decide(seen, NOW), "acme: denied", NOW, Tried(), again_seconds=None)
    assert (decision.again_seconds, reason(decision)) == (0.0, "TenantChangeRefused")


def test_a_refusal_is_no_error_while_no_tenant_may_be_tried() -> None:
    closed: JsonObject = {"start": "03:00", "hours": 1}
    seen = in_waves(a_tenant("1", has="bookshop-v1"), window=closed)
    shown = showing(seen, with_a_refusal(seen))
    decision = with_a_refusal(shown, seconds=None)
    assert decision.status is not None
    assert (decision.status.state, reason(decision)) == ("Consistent", "VersionExists")
    far = conditions.find(decision.status.conditions, "AllTenantsReady")
    assert far is not None
    assert far.message.endswith("; acme: denied")
    later = with_a_refusal(showing(seen, decision), now=NOW + timedelta(seconds=7), seconds=None)
    assert later.status == decision.status


def test_a_deletion_of_a_tenant_that_was_refused_keeps_no_other_one() -> None:
    application = an_application(deleted=True, state="Deleting")
    acme, best = a_tenant("1", kind="provider"), a_tenant("1", kind="provider", name="best")
    seen = ApplicationSnapshot(application=application, tenants=(acme, best), refused_tenants={acme.key: "deleted"})
    decision = plan.decide(seen, NOW)
    assert (decision.write, decision.change, decision.due) == (DeleteTenants([best]), "deleted", [acme, best])
