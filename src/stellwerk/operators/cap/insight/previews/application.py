"""The preview of a CAPApplication."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import msgspec

from stellwerk.api.core import Secret
from stellwerk.api.istio import VirtualService
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.confirmation import Live, live_view
from stellwerk.delivery.insight import Preview, PreviewFailed, PreviewRequest
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import NotServed
from stellwerk.kube.types.model import metadata_of
from stellwerk.operators.cap import names, preparation
from stellwerk.operators.cap.application import exposures, inline_domains, plan
from stellwerk.operators.cap.application.plan import ApplicationSnapshot, Decision, Write
from stellwerk.operators.cap.hashed_objects import ORIGINAL, owner_of
from stellwerk.operators.cap.insight.previews import surroundings
from stellwerk.operators.cap.insight.previews.surroundings import METADATA, KindPreviewer, Outcome, Surroundings
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.kinds.status import READY
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.routing.objects import exposure_owner_hash
from stellwerk.operators.cap.routing.targets import Unroutable
from stellwerk.operators.cap.tenant import subscription_objects
from stellwerk.runtime import conditions

_MOST_STEPS = 10
"""Of an application, passes that only show progress."""


async def preview(subject: CAPApplication, request: PreviewRequest) -> Preview:
    """What the operator would write for an application: see `Previewer`."""
    client, namespace = request.client, subject.metadata.namespace
    found = await surroundings.around(client, namespace, subject.metadata.name, subject)
    outcome = Outcome()
    seen, decision = _decided(await _snapshot(client, subject, found), outcome)
    if decision.write is not None:
        await _note_write(client, outcome, seen.application, decision.write)
    if decision.exposes is not None:
        await _note_routes(client, outcome, found, seen.application, decision.exposes)
    ready = conditions.find(decision.status.conditions, READY) if decision.status is not None else None
    if ready is not None and not ready.is_true and decision.write is None:
        outcome.warnings.append(ready.message)  # what the application waits for
    return outcome.preview(claims=ORIGINAL)


async def _snapshot(client: Client, application: CAPApplication, found: Surroundings) -> ApplicationSnapshot:
    namespace = application.metadata.namespace
    secrets = (await client.list(metadata_of(Secret), namespace)).items
    provider = subscription_objects.provider_tenant(application, found.tenants)
    find_secret = {each.metadata.name: each for each in secrets}.get
    is_inline = application.spec.domains is not None and not application.spec.domain_refs
    return ApplicationSnapshot(
        application=application,
        versions=found.versions,
        hidden_versions=found.hidden_versions,
        tenants=found.tenants,
        domains=found.domains,
        offered_domains=found.offered_domains,
        missing_secrets=await surroundings.missing_secrets(client, application),
        held_secrets=[each for each in secrets if names.APPLICATION_FINALIZER in each.metadata.finalizers],
        conversion=inline_domains.conversion(
            application,
            await surroundings.listed(client, Domain, namespace),
            await surroundings.listed(client, ClusterDomain),
        )
        if is_inline
        else None,
        unowned_context=subscription_objects.unowned_context(provider, find_secret),
        lost_context=subscription_objects.lost_context(application, provider, find_secret),
    )


def _decided(seen: ApplicationSnapshot, outcome: Outcome) -> tuple[ApplicationSnapshot, Decision]:
    """The decision with the next writes, after those that only add metadata or show progress."""
    now = datetime.now(UTC)
    for _ in range(_MOST_STEPS):
        decision = plan.decide(seen, now)
        application = seen.application
        if isinstance(decision.write, plan.Prepare):
            outcome.changed[application.ref] = METADATA
            seen = replace(seen, application=preparation.prepared(application, decision.write.lacking))
        elif decision.write is None and decision.again and decision.status is not None:
            seen = replace(seen, application=msgspec.structs.replace(application, status=decision.status))
        else:
            return seen, decision
    raise PreviewFailed("the application does not come to an end")


async def _note_write(client: Client, outcome: Outcome, application: CAPApplication, write: Write) -> None:
    match write:
        case plan.ReleaseSecrets(held):
            for each in held:
                outcome.changed[Address(Secret.resource, each.key).ref] = "a finalizer of the first releases goes"
        case plan.ConvertDomains(conversion):
            outcome.objects += conversion.created
            outcome.changed[application.ref] = "spec.domains becomes spec.domainRefs"
        case plan.CreateProvider(version):
            secret, provider = subscription_objects.of_provider(application, version.spec.version)
            found = await client.find(metadata_of(Secret), secret.key.name, secret.key.namespace)
            if found is not None and (why := subscription_objects.taken_name(application, found)):
                outcome.warnings.append(why)
                return
            if found is None:
                outcome.created[secret.ref] = "the payload of the provider's subscription"
            outcome.objects.append(provider)
        case plan.OwnContext(_, secret):
            outcome.changed[Address(Secret.resource, secret.key).ref] = "its tenant becomes its owner"
        case plan.RestoreContext(secret):
            outcome.created[secret.ref] = "the payload of the provider's subscription"
        case plan.DeleteTenants(tenants):
            for tenant in tenants:
                outcome.deleted[tenant.ref] = "the tenant of the provider goes with the application"
        case plan.SetVersions(tenants, version):
            for tenant in tenants:
                outcome.changed[tenant.ref] = f"spec.version: {tenant.spec.version or 'none'} -> {version}"
        case plan.Release():
            outcome.changed[application.ref] = "the finalizer goes, and the application with it"
        case plan.Prepare():
            outcome.changed[application.ref] = METADATA


async def _note_routes(
    client: Client, outcome: Outcome, found: Surroundings, application: CAPApplication, version: CAPApplicationVersion
) -> None:
    """The VirtualServices of service exposures."""
    label = f"{names.OWNER_HASH_LABEL}={exposure_owner_hash(application)}"
    try:
        listed = await client.list(live_view(VirtualService.resource), application.metadata.namespace, labels=label)
    except NotServed:
        return
    live: list[Live] = [each for each in listed.items if each.metadata.is_controlled_by(application.metadata)]
    try:
        home = await surroundings.operator_namespace(client)
        allowed = await surroundings.allowed_headers(client, home)
        wanted = exposures.routes(application, version, live, found.find_domain, home, allowed)
    except Unroutable as error:
        raise PreviewFailed(str(error)) from error
    shown = {exposures.address_of(each): each for each in live}
    for address, (desired, hash) in wanted.items():
        outcome.hashed(owner_of(application), desired, hash, shown.get(address))
    for address in shown.keys() - wanted.keys():
        outcome.deleted[address.ref] = f"{version.ref} does not expose its subdomain"


PREVIEWER = KindPreviewer(CAPApplication, preview)
