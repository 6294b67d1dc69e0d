"""The words of the verbs. Light: completion and help read them."""

from __future__ import annotations

from stellwerk.delivery.operator_verbs import OperatorVerb, OperatorVerbs, VerbArgument, VerbOption
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):
    from stellwerk.operators.cap.verbs import retry, subscribe, unsubscribe, upgrade

APP, TENANT, TENANT_ID, SUBDOMAIN, OBJECT = "APP", "TENANT", "TENANT_ID", "SUBDOMAIN", "KIND/NAME"
TO, RESUME = "--to", "--resume"
_IDENTITY = (("spec", "subDomain"), ("spec", "tenantId"))
"""What names a tenant besides its name."""

VERBS = OperatorVerbs(
    name="cap",
    summary="Act on tenants and versions of CAP applications.",
    verbs=(
        OperatorVerb(
            name="subscribe",
            help="""\
Create a tenant, as the subscription server would.

It makes the CAPTenant and the Secret with the payload of the subscription. The application gives it the newest version
that is Ready. No registry of SAP BTP is involved.""",
            plan=lambda request: subscribe.plan(request),
            arguments=(
                VerbArgument(name=APP, kinds=("ca",)),
                VerbArgument(name=TENANT_ID),
                VerbArgument(name=SUBDOMAIN),
            ),
        ),
        OperatorVerb(
            name="unsubscribe",
            help="""\
Delete tenants with their data.

The operator deprovisions each of them by the Jobs of its version. TENANT is a name, a subdomain or a tenant id.""",
            plan=lambda request: unsubscribe.plan(request),
            arguments=(VerbArgument(name=TENANT, kinds=("cat",), also_by=_IDENTITY, many=True),),
            is_destructive=True,
        ),
        OperatorVerb(
            name="upgrade",
            help="""\
Bring tenants to a version now, or resume an upgrade.

Without TENANT it is about all tenants of the application, but for those that never follow a version. If the application
upgrades in waves, these decide when each tenant follows; a tenant that is named does not wait.""",
            plan=lambda request: upgrade.plan(request),
            arguments=(
                VerbArgument(name=APP, kinds=("ca",)),
                VerbArgument(name=TENANT, kinds=("cat",), also_by=_IDENTITY, many=True, required=False),
            ),
            options=(
                VerbOption(flag=TO, metavar="VERSION", help="This version, instead of the newest that is Ready."),
                VerbOption(flag=RESUME, help="Let an upgrade in waves that is paused go on."),
            ),
        ),
        OperatorVerb(
            name="retry",
            help="""\
Run what failed again.

Of tenants and operations it is the step that failed, of versions the content job. For an application (ca/NAME) it is
all of its tenants and versions that have failed.""",
            plan=lambda request: retry.plan(request),
            arguments=(VerbArgument(name=OBJECT, kinds=("cat", "ctop", "cav", "ca"), many=True, also_by=_IDENTITY),),
        ),
    ),
)
