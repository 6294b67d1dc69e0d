"""The routes of the subscription server, for both protocols.

Each request goes the same way: its form, its caller, the application, whether the caller may act for that, the act. Who
calls is decided before the application is looked for, by what is known of all applications. So a caller without valid
credentials gets the same answer in the same time, whether the application or the tenant exists or not.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue, encode_json
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication, ServiceInfo, SubscriptionDependency
from stellwerk.operators.cap.kinds.tenant import CAPTenant, Operation
from stellwerk.operators.cap.subscription import dependencies, metrics, payloads, plan, registries
from stellwerk.operators.cap.subscription.callbacks import promise
from stellwerk.operators.cap.subscription.callbacks.promise import Promise
from stellwerk.operators.cap.subscription.callbacks.registry import CallbackInvalid, RegistryUnusable, callback_url
from stellwerk.operators.cap.subscription.callers import tokens
from stellwerk.operators.cap.subscription.callers.bindings import Bindings
from stellwerk.operators.cap.subscription.callers.client_certificates import ClientCertificate
from stellwerk.operators.cap.subscription.callers.gateway import Gateway
from stellwerk.operators.cap.subscription.callers.keys import IssuerKeys
from stellwerk.operators.cap.subscription.callers.tokens import Claims, TokenRefused
from stellwerk.operators.cap.subscription.callers.verification import PEER_TIMES, Verifier
from stellwerk.operators.cap.subscription.directory import Directory
from stellwerk.operators.cap.subscription.identity import Caller, Identities
from stellwerk.operators.cap.subscription.metrics import RequestMetrics
from stellwerk.operators.cap.subscription.payloads import PayloadInvalid, Subscription
from stellwerk.operators.cap.subscription.plan import Authorization
from stellwerk.operators.cap.subscription.registries import Protocol
from stellwerk.operators.cap.subscription.subscriptions import CannotSubscribe, Subscriptions
from stellwerk.runtime.certificates.client_certificates import CertificateRefused
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.serving.crowd import peer_of
from stellwerk.runtime.serving.http_messages import JSON, Request, Response
from stellwerk.runtime.serving.rate_limit import RateLimit
from stellwerk.runtime.serving.routes import Handler, Route
from stellwerk.runtime.serving.shares import NoPlace, Shares

CALLBACK_HEADER = "STATUS_CALLBACK"
NOT_FOUND = "resource not found"
NOT_AUTHORIZED = "authorization check failed"
TRY_AGAIN = "the request cannot be served now: try again"
MOST_REQUESTS = 192
"""That are being answered, each peer at most three quarters of them. Fewer than the HTTP server takes, which does not
look at peers."""

_log = logging.getLogger(__name__)


class Refused(Exception):
    """A request is answered otherwise than its caller wants."""

    standard_status = 0
    """The status where standard ones are wanted; 0: the same."""

    def __init__(self, status: int, message: str, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class NotAuthenticated(Refused):
    """It is not known who calls."""

    standard_status = 401


class NotAuthorized(Refused):
    """The caller may not act for this application."""

    standard_status = 403


class Undecided(Refused):
    """It is not known yet whether the caller may act: a registry would take a refusal as final."""

    def __init__(self, retry_after: float = 1.0) -> None:
        super().__init__(503, TRY_AGAIN, retry_after=retry_after)


class Crowded(Refused):
    """Others would have to wait for the answer."""

    def __init__(self) -> None:
        super().__init__(429, "too many requests: try again", retry_after=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRoutes:
    """Answers the requests of registries."""

    directory: Directory
    bindings: Bindings
    identities: Identities
    subscriptions: Subscriptions
    keys: IssuerKeys
    gateway: Gateway
    authorities: Callable[[], list[bytes]]
    """Those of client certificates, as PEM."""
    clock: Clock
    counts: RequestMetrics
    client_limit: RateLimit
    tenant_limit: RateLimit
    places: Shares = field(default_factory=lambda: Shares(MOST_REQUESTS))
    verifier: Verifier = field(default_factory=Verifier)
    standard_status_codes: bool = False

    def routes(self) -> list[Route]:
        """All of them, for a server."""
        return [
            self._route("/provision/{path:.*}", metrics.SUBSCRIPTIONS, ("PUT", "DELETE"), self._provision_saas),
            self._route("/sms/provision/{path:.*}", metrics.SMS_SUBSCRIPTIONS, ("PUT", "DELETE"), self._provision_sms),
            *(
                self._route(f"{path}{end}", name, ("GET",), partial(self._dependencies, authenticate))
                for path, name, authenticate in (
                    ("/dependencies/{provider}/{app}", metrics.DEPENDENCIES, self._token),
                    ("/sms/dependencies/{provider}/{app}/{tenant}", metrics.SMS_DEPENDENCIES, self._certificate),
                )
                for end in ("", "/")
            ),
        ]

    def _route(self, path: str, name: str, methods: Collection[str], answer: Handler) -> Route:
        async def handler(request: Request) -> Response:
            return await self.counts.counted(name, request.method, self._answered(request, methods, answer))

        return Route("*", path, handler)

    async def _answered(self, request: Request, methods: Collection[str], answer: Handler) -> Response:
        try:
            if not self.directory.is_filled:
                raise Undecided
            client = self._client(request)
            self._limit(self.client_limit, client)
            if request.method not in methods:
                raise Refused(405, "invalid request method")
            with self.places.place({client: PEER_TIMES}):
                return await answer(request)
        except NoPlace:
            return self._refusal(Crowded())
        except PayloadInvalid as error:
            return message(400, str(error))
        except Refused as error:
            return self._refusal(error)

    def _refusal(self, error: Refused) -> Response:
        standard = error.standard_status if self.standard_status_codes else 0
        response = message(standard or error.status, str(error))
        if error.retry_after:
            response.headers["Retry-After"] = str(math.ceil(error.retry_after))
        if response.status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        return response

    # ---- subscriptions

    async def _provision_saas(self, request: Request) -> Response:
        subscription = payloads.saas_subscription(request.body)
        callback = _callback(request)
        claims = await self._token(request)
        asked = _Asked(
            protocol=Protocol.SAAS,
            callback=callback,
            caller=claims,
            guid=subscription.guid,
            tenant_id=subscription.tenant_id,
            subscription=subscription,
        )
        if request.method == "PUT":
            return await self._subscribe(asked, subscription, request.body)
        return await self._unsubscribe(asked)

    async def _provision_sms(self, request: Request) -> Response:
        callback = _callback(request)
        subscription = payloads.sms_subscription(request.body) if request.method == "PUT" else None
        if subscription is not None:
            guid, tenant_id = subscription.guid, subscription.tenant_id
        else:
            guid, tenant_id = payloads.sms_end(request.query, request.found["path"].rstrip("/").rpartition("/")[2])
        certificate = await self._certificate(request)
        asked = _Asked(protocol=Protocol.SMS, callback=callback, caller=certificate, guid=guid, tenant_id=tenant_id)
        if subscription is not None:
            return await self._subscribe(asked, subscription, request.body)
        return await self._unsubscribe(asked)

    async def _subscribe(self, asked: _Asked, subscription: Subscription, body: bytes) -> Response:
        application = await self._application(asked.caller, subscription)
        if application is None:
            raise Refused(406, NOT_FOUND)
        if application.status.services_only:
            raise Refused(406, "no multi-tenant capapplication found")
        self._authorize(asked.caller, application)
        self._limit(self.tenant_limit, f"{application.key} {subscription.tenant_id}")
        if isinstance(asked.caller, Claims) and self._is_replay(asked.caller, application, subscription):
            raise NotAuthorized(406, NOT_AUTHORIZED)
        try:
            domain = plan.domain_for(application, subscription.domain, self.directory.all_domains())
        except plan.DomainUnknown as error:
            raise Refused(406, f"Error constructing subscription URL: {error}") from None
        promised = self._promise(asked, application, subdomain=subscription.subdomain, domain=domain)
        try:
            text = await self.subscriptions.subscribe(application, subscription, body, promised)
        except CannotSubscribe as error:
            raise Refused(406, str(error)) from None
        except ApiError as error:
            _log.warning("a subscription to CAPApplication %s cannot be made: %s", application.key, error)
            raise Refused(406, TRY_AGAIN, retry_after=1.0) from None
        return message(202, text)

    async def _unsubscribe(self, asked: _Asked) -> Response:
        try:
            tenant = await self._subscribed(asked)
            application = self.directory.application_of(tenant) if tenant is not None else None
            if tenant is None or application is None or plan.is_provider(tenant):
                raise Refused(404, "tenant not found")
            self._authorize(asked.caller, application)
            self._limit(self.tenant_limit, f"{application.key} {asked.tenant_id}")
            promised = self._promise(asked, application, tenant)
            if promised is not None:
                await self.subscriptions.promise(promised, tenant.metadata.namespace)
            await self.subscriptions.unsubscribe(tenant)
        except ApiError as error:
            _log.warning("the end of a subscription cannot be carried out: %s", error)
            raise Refused(406, TRY_AGAIN, retry_after=1.0) from None
        return message(202, "resource deleted successfully")

    async def _subscribed(self, asked: _Asked) -> CAPTenant | None:
        """The tenant whose subscription ends: by its id, else, for the SaaS registry, by application and tenant.

        Labels may be on tenants of other applications, too: the caller means one that it may act for. An id that has
        ended within the last day means no other tenant: the request is a replay. The tenant whose end was promised
        is meant, because it may be there still: the promise comes before the deletion. Raises Refused, also where the
        application that is meant may be one that cannot be read.
        """
        guid, tenant_id = asked.guid, asked.tenant_id
        found = self.directory.subscribed(guid, tenant_id)
        await self.identities.settled(filter(None, map(self.directory.application_of, found)))
        if not any(self._is_allowed(asked.caller, each) for each in found):
            found = await self.subscriptions.live_subscribed(guid, tenant_id)
            await self.identities.settled(filter(None, map(self.directory.application_of, found)))
        if allowed := [each for each in found if self._is_allowed(asked.caller, each)]:
            return plan.oldest(allowed)
        if asked.subscription is None:
            _refuse_unreadable(found, self.directory.applications.hidden)
            applications = filter(None, map(self.directory.application_of, found))
            if any(self.identities.authorization(asked.caller, each) is Authorization.UNKNOWN for each in applications):
                raise Undecided
            if found:
                raise NotAuthorized(406, NOT_AUTHORIZED)
            return None
        application = await self._application(asked.caller, asked.subscription)
        if application is None:
            return None
        tenant = await self.subscriptions.tenant(application, tenant_id)
        if tenant is None:
            _refuse_unreadable(found, self._hidden(asked.subscription))
            # It may be of a younger application with the same identity: "not found" would mean to the registry that the
            # subscription has ended.
            self._authorize(asked.caller, application)
            return None
        ends = self.directory.ends_of(guid, application.metadata.namespace)
        return tenant if not ends or any(each.uid == tenant.metadata.uid for each in ends) else None

    def _is_replay(self, claims: Claims, application: CAPApplication, subscription: Subscription) -> bool:
        ends = self.directory.ends_of(subscription.guid, application.metadata.namespace)
        return any(
            each.application == application.metadata.name
            and each.tenant_id == subscription.tenant_id
            and promise.is_replay(claims.issued_at, each)
            for each in ends
        )

    def _promise(
        self,
        asked: _Asked,
        application: CAPApplication,
        tenant: CAPTenant | None = None,
        *,
        subdomain: str = "",
        domain: str = "",
    ) -> Promise | None:
        """What the registry is promised about a tenant that goes, or else about a new one; None where it wants no
        answer.

        The end of a subscription is noted in any case, because it must not be replayed. Raises PayloadInvalid, and
        Refused where the binding is not complete, which is not for the caller to correct.
        """
        trust, now = self.bindings.of(application), self.clock.now()
        service = registries.service_of(application, asked.protocol)
        if service is None or (not asked.callback and tenant is None):
            return None
        if asked.callback:
            try:
                callback_url(trust.registry_urls.get(asked.protocol, ""), asked.callback)
            except RegistryUnusable:
                _log.warning(
                    "the binding of service %s of CAPApplication %s has no usable URL", service.name, application.key
                )
                raise Refused(406, TRY_AGAIN, retry_after=1.0) from None
            except CallbackInvalid as error:
                raise PayloadInvalid(f"header {CALLBACK_HEADER}: {error}") from None
        timeout = trust.timeouts.get(asked.protocol, registries.DEFAULT_TIMEOUT)
        return Promise(
            operation=Operation.PROVISIONING if tenant is None else Operation.DEPROVISIONING,
            protocol=asked.protocol,
            path=asked.callback,
            application=application.metadata.name,
            tenant_id=tenant.spec.tenant_id if tenant is not None else asked.tenant_id,
            guid=asked.guid,
            secret=service.secret,
            service=service.name,
            accepted=now,
            deadline=now + timeout,
            tenant=tenant.metadata.name if tenant is not None else "",
            uid=tenant.metadata.uid if tenant is not None else "",
            subdomain=subdomain,
            domain=domain,
        )

    # ---- dependencies

    async def _dependencies(self, authenticate: Callable[[Request], Awaitable[Caller]], request: Request) -> Response:
        provider, app_name = request.found["provider"], request.found["app"]
        try:
            caller = await authenticate(request)
            application = await self._meant(caller, self.directory.named(provider, app_name, provider))
            if application is None:
                raise Refused(400, NOT_FOUND)
            self._authorize(caller, application)
        except (NotAuthenticated, NotAuthorized) as error:
            error.status = 401
            raise
        listed: list[JsonValue] = []
        try:
            for service in application.spec.btp.services:
                listed += await self._dependency(application, service)
        except ApiError as error:
            _log.warning("the services of CAPApplication %s cannot be read: %s", application.key, error)
            raise Refused(400, TRY_AGAIN, retry_after=1.0) from None
        return Response(200, encode_json(listed), JSON)

    async def _dependency(self, application: CAPApplication, service: ServiceInfo) -> list[JsonObject]:
        if service.subscription_dependency == SubscriptionDependency.NEVER:
            return []
        found = await self.bindings.read(application, service, partial(dependencies.of_service, service))
        if found is None and service.subscription_dependency == SubscriptionDependency.ALWAYS:
            raise Refused(400, f"the credentials of service {service.name} cannot be read")
        return found or []

    # ---- who calls

    async def _token(self, request: Request) -> Claims:
        """The content of a valid token. Raises NotAuthenticated, Undecided."""
        try:
            token = tokens.bearer(request.headers.get("Authorization", ""))
        except TokenRefused:
            raise NotAuthenticated(406, "expected bearer token") from None
        try:
            header, peer = await self._header(token), self._client(request)
            issuer_keys = await self.keys.of(header, peer)
            now, share = self.clock.now().timestamp(), self.keys.share_of(header.issuer)
            claims = await self.verifier.claims(token, header, issuer_keys, now, peer=peer, share=share)
        except TokenRefused as error:
            _log.info("a token is refused: %s", error)
            if isinstance(error, tokens.ShareUsedUp):
                raise Crowded from None
            if isinstance(error, tokens.KeysAbsent):
                raise Undecided from None
            if isinstance(error, tokens.IssuerUnknown) and not self.bindings.are_current:
                # While the binding of any application cannot be read, this holds for every unknown issuer. A caller
                # gains nothing by that: the token is refused in any case.
                raise Undecided(self.bindings.retry_seconds) from None
            raise NotAuthenticated(406, NOT_AUTHORIZED) from None
        self.keys.prove(header.issuer)
        return claims

    async def _header(self, token: str) -> tokens.TokenHeader:
        """The header of a token. For an issuer that no binding has brought, those that are not read are waited for."""
        found: list[tokens.TokenHeader] = []

        def is_known() -> bool:
            with contextlib.suppress(tokens.IssuerUnknown):
                found[:] = [tokens.header_of(token, self.bindings.uaa_domains)]
            return bool(found)

        if not is_known():
            await self.bindings.all_read(is_known)
        return found[0] if found else tokens.header_of(token, self.bindings.uaa_domains)

    async def _certificate(self, request: Request) -> ClientCertificate:
        """The names of a valid client certificate. Raises NotAuthenticated, Undecided."""
        header = request.headers.all("X-Forwarded-Client-Cert")
        if not self.gateway.is_known(request.remote):
            _log.warning("a client certificate is put off: the pods or the Secret of the gateway cannot be read yet")
            raise Undecided
        try:
            if problem := self.gateway.problem(request.remote, request.headers.all(names.GATEWAY_HEADER)):
                raise CertificateRefused(problem)
            if len(header) != 1:
                raise CertificateRefused("there is no header with one client certificate")
            peer, authorities = self._client(request), [*self.authorities()]
            return await self.verifier.certificate(header[0], authorities, self.clock.now(), peer=peer)
        except CertificateRefused as error:
            _log.info("a client certificate is refused: %s", error)
            raise NotAuthenticated(406, NOT_AUTHORIZED) from None
        except tokens.ShareUsedUp:
            raise Crowded from None

    def _is_allowed(self, caller: Caller, tenant: CAPTenant) -> bool:
        application = self.directory.application_of(tenant)
        return application is not None and self.identities.authorization(caller, application) is Authorization.GRANTED

    def _authorize(self, caller: Caller, application: CAPApplication) -> None:
        """Raises NotAuthorized where the caller may not act for the application, Undecided where that is unknown."""
        match self.identities.authorization(caller, application):
            case Authorization.GRANTED:
                return
            case Authorization.REFUSED:
                _log.info("a caller may not act for CAPApplication %s", application.key)
                raise NotAuthorized(406, NOT_AUTHORIZED)
            case Authorization.UNKNOWN:
                _, why = self.identities.finding(application) or (
                    "",
                    "its bindings are not known, or not proved for this audience",
                )
                _log.warning("a request for CAPApplication %s is put off: %s", application.key, why)
                raise Undecided

    # ---- small things

    async def _meant(self, caller: Caller, named: Sequence[CAPApplication]) -> CAPApplication | None:
        await self.identities.settled(named)
        return plan.meant(named, partial(self.identities.authorization, caller))

    async def _application(self, caller: Caller, subscription: Subscription) -> CAPApplication | None:
        """The application that a request names. Raises Refused where it may be one that cannot be read.

        An application that the caller may act for is taken, whatever cannot be read: any user may write an object that
        cannot be decoded.
        """
        named = self.directory.named(
            subscription.provider_subaccount_id, subscription.app_name, subscription.global_account_id
        )
        application = await self._meant(caller, named)
        is_allowed = application and self.identities.authorization(caller, application) is Authorization.GRANTED
        if not is_allowed and (hidden := self._hidden(subscription)):
            raise _unreadable(hidden)
        return application

    def _hidden(self, subscription: Subscription) -> list[ObjectKey]:
        return self.directory.hidden(
            subscription.provider_subaccount_id, subscription.app_name, subscription.global_account_id
        )

    def _client(self, request: Request) -> str:
        """Whose requests are counted together: the address that the gateway has seen, or the peer."""
        remote = request.remote
        listed = ",".join(request.headers.all("X-Forwarded-For"))
        forwarded, proofs = listed.rpartition(",")[2].strip(), request.headers.all(names.GATEWAY_HEADER)
        if forwarded and len(forwarded) <= 64 and self.gateway.sent(remote, proofs):
            return peer_of((forwarded,))
        return peer_of((remote,))

    def _limit(self, limit: RateLimit, key: str) -> None:
        if wait := limit.wait_seconds(key):
            raise Refused(429, "too many requests: try again", retry_after=wait)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A request whose caller is known."""

    protocol: Protocol
    callback: str
    caller: Caller
    guid: str
    tenant_id: str
    subscription: Subscription | None = None
    """What the SaaS registry describes; None where only ids are given."""


def _refuse_unreadable(tenants: Iterable[CAPTenant], hidden: Collection[ObjectKey]) -> None:
    """Raises Refused where a tenant is of an application that cannot be read."""
    if meant := [each.application_key for each in tenants if each.application_key in hidden]:
        raise _unreadable(meant)


def _unreadable(applications: Sequence[ObjectKey]) -> Refused:
    """The answer where "not found" could be wrong: the registry would take the subscription as ended, or give up."""
    _log.warning("a request is put off: it may be for CAPApplication %s, which cannot be read", applications[0])
    return Refused(406, TRY_AGAIN, retry_after=1.0)


def _callback(request: Request) -> str:
    listed = request.headers.all(CALLBACK_HEADER)
    if len(listed) > 1:
        raise PayloadInvalid(f"header {CALLBACK_HEADER} must be there once")
    return listed[0].strip() if listed else ""


def message(status: int, text: str) -> Response:
    """An answer as the original gives it."""
    return Response(status, encode_json({"Tenant": None, "Message": text}), JSON)
