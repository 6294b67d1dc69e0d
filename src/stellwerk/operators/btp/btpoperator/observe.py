"""What there is to see: the caches, read into frozen values. Nothing here writes.

Three things are read from the API server, and only when a cache shows that they are new: the values of the required
Secret, of the operand's own Secret, and of the two certificate Secrets. The caches hold Secrets without their values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.api.core import ConfigMap, Secret
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, PartialObjectMetadata
from stellwerk.operators.btp import api
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.btpoperator.leading import Leading
from stellwerk.operators.btp.btpoperator.plan import Blockers, Snapshot
from stellwerk.operators.btp.credentials import credentials
from stellwerk.operators.btp.credentials.credentials import (
    BtpCredentials,
    CredentialsComparison,
    SecretProblem,
)
from stellwerk.operators.btp.errors import StateUnread, or_fail
from stellwerk.operators.btp.module import version_record
from stellwerk.operators.btp.module.release import comes_from_chart
from stellwerk.operators.btp.reasons import Reason
from stellwerk.operators.btp.settings import CrSelection, Settings
from stellwerk.operators.btp.watches import Cache, Caches, why_blind
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control import secrecy
from stellwerk.runtime.telemetry import logs

NOT_READ = SecretProblem(Reason.MissingSecret, "the required Secret is read only for the BtpOperator that leads")


class SecretReader:
    """The values of the few Secrets that we need, each read once per version and then kept.

    Those that are secret indeed are given to `hide` before anybody else gets them.
    """

    def __init__(self, client: Client, *, hide: Callable[..., None] = logs.hide) -> None:
        self._client = client
        self._hide = hide
        self._known: dict[ObjectKey, Secret] = {}

    async def read(self, seen: PartialObjectMetadata | None) -> Secret | None:
        """The Secret that a cache has seen; None where it has seen none, or it is gone. Raises ApiError."""
        if seen is None:
            return None
        known = self._known.get(seen.key)
        if known is None or _version(known) != _version(seen):
            known = await self._client.find(Secret, seen.metadata.name, seen.metadata.namespace)
            self.keep(seen.key, known)
        if known is not None:
            data = known.data
            secrecy.note(f"secret {seen.key}", lambda: credentials.secret_texts(data))
        return known

    def keep(self, key: ObjectKey, secret: Secret | None) -> None:
        """Remember what a write answered, so that it need not be read back."""
        if secret is None:
            self._known.pop(key, None)
        else:
            self._hide(*credentials.secret_texts(secret.data), tenant=key.namespace, source=f"secret {key}")
            self._known[key] = secret


def _version(secret: HasMetadata) -> tuple[str, str]:
    return secret.metadata.uid, secret.metadata.resource_version


@dataclass(frozen=True, slots=True)
class Observer:
    """Reads the caches. `settings` answers with those in force now."""

    caches: Caches
    secrets: SecretReader
    settings: Callable[[], Settings]
    clock: Clock
    leading: Leading

    @property
    def chart_namespace(self) -> str:
        """The module's own namespace."""
        return self.settings().chart_namespace

    async def snapshot(self, operator: BtpOperator) -> Snapshot:
        """All that decides about one BtpOperator. Raises StateUnread."""
        settings = self.settings()
        self._check_tunables(settings)
        if self._leads(operator):
            await self.caches.users_settled()
            await self.caches.follow(settings.chart_namespace)
        required = await self.required_secret() if self._leads(operator) else NOT_READ
        compared = None
        if self._leads(operator):
            await self.caches.secrets.cover(settings.chart_namespace, self._credentials_namespaces(required))
            if isinstance(required, BtpCredentials) and not operator.metadata.is_terminating:
                compared = await self.comparison(required)
        deleted = operator.metadata.is_terminating and self._leads(operator)
        blockers = self.blockers() if deleted else Blockers()
        return Snapshot(
            operator=operator,
            leader=self.leader(),
            fixed=settings.cr_selection is CrSelection.FIXED,
            required_secret=required,
            comparison=compared,
            blockers=blockers,
            hides_users=deleted and not blockers and self.users_may_have_objects(),
            now=self.clock.now(),
            hard_delete_timeout=settings.hard_delete_timeout,
            home=settings.home_namespace,
            from_chart=comes_from_chart(settings),
        )

    def _check_tunables(self, settings: Settings) -> None:
        """Raises StateUnread where the ConfigMap with tunables was never read: it may name another chart namespace.

        Without the right to read it, the defaults apply.
        """
        tunables = self.caches.tunables
        if tunables.parked is not None and not tunables.is_filled and not tunables.is_forbidden:
            what = f"ConfigMap {settings.chart_namespace}/{settings.config_name}"
            raise StateUnread(Reason.GettingConfigMapFailed, what, tunables.parked.why)

    def _leads(self, operator: BtpOperator) -> bool:
        leader = self.leader()
        return leader is not None and leader.metadata.uid == operator.metadata.uid

    def leader(self) -> BtpOperator | None:
        """The CR that represents the module."""
        return self.leading.current()

    def leader_key(self) -> tuple[ObjectKey, ...]:
        """The key of the leader; none where no CR leads."""
        leader = self.leader()
        return () if leader is None else (leader.key,)

    def users_may_have_objects(self) -> bool:
        """Whether the caches show any service instance or binding, or do not prove that there is none."""
        return any(self.caches.may_have(kind) for kind in (ServiceInstance, ServiceBinding))

    def blockers(self) -> Blockers:
        """The service instances and bindings of users, in all namespaces."""
        instances, bindings = self.caches.of_users(ServiceInstance), self.caches.of_users(ServiceBinding)
        return Blockers(tuple(each.key for each in instances), tuple(each.key for each in bindings))

    async def required_secret(self) -> BtpCredentials | SecretProblem:
        """The content of the required Secret, or what is wrong with it."""
        settings = self.settings()
        key = ObjectKey(settings.chart_namespace, settings.secret_name)
        try:
            secret = await self.secrets.read(self.caches.secrets.get(key))
        except ApiError as error:
            return credentials.unreadable(key, str(error))
        if secret is None:
            return credentials.missing(key)
        return credentials.read(secret.data, secret.metadata.annotations, default_namespace=settings.chart_namespace)

    async def comparison(self, wanted: BtpCredentials) -> CredentialsComparison:
        """What the required Secret asks for, compared with what the operand has. Raises StateUnread."""
        found = tuple(
            secret.metadata.namespace
            for secret in self.caches.secrets.ours()
            if self.holds_credentials(secret) and not secret.metadata.is_terminating
        )
        namespace = credentials.operand_namespace(found, wanted)
        key = ObjectKey(namespace, api.CLUSTER_ID_SECRET_NAME)
        unread = partial(StateUnread, Reason.GettingSapBtpServiceOperatorClusterIdSecretFailed, f"Secret {key}")
        own = await or_fail(self.secrets.read(self.caches.secrets.get(key)), unread)
        return CredentialsComparison(
            wanted=wanted,
            namespace=namespace,
            found=found,
            config_cluster_id=self.operand_config().get("CLUSTER_ID"),
            initial_cluster_id=credentials.text(own.data, credentials.INITIAL_CLUSTER_ID_KEY) if own else None,
        )

    def check_sight(self) -> None:
        """Raises StateUnread where an object that decides cannot be read: as absent, it would be created or moved."""
        config = ObjectKey(self.chart_namespace, api.OPERAND_CONFIG_NAME)
        of_secrets = Reason.GettingDefaultCredentialsSecretFailed
        of_ids = Reason.GettingSapBtpServiceOperatorClusterIdSecretFailed
        of_config = Reason.GettingSapBtpServiceOperatorConfigMapFailed
        deciding: list[tuple[Cache, str, Reason]] = [
            *((informer, "Secrets", of_secrets) for informer in self.caches.secrets.labelled()),
            (self.caches.resources[ConfigMap.resource], f"ConfigMap {config}", of_config),
            *((informer, f"Secret {api.CLUSTER_ID_SECRET_NAME}", of_ids) for informer in self.caches.secrets.sights()),
        ]
        for informer, what, reason in deciding:
            if why := why_blind(informer):
                raise StateUnread(reason, what, _grant(informer, why))

    def unseen(self) -> str:
        """Which objects of the module we cannot look at, in a sentence; empty where we see all."""
        return next((_grant(informer, why) for informer in self.caches.of_module() if (why := why_blind(informer))), "")

    def module(self) -> dict[Address, Live]:
        """Everything that carries our managed-by label where we look, Secrets as metadata."""
        present: dict[Address, Live] = {
            Address(Secret.resource, secret.key): secret for secret in self.caches.secrets.ours()
        }
        for resource, informer in self.caches.resources.items():
            present.update((Address(resource, obj.key), obj) for obj in informer.store.all())
        return present

    def removable(self) -> dict[Address, Live]:
        """What of `module` is ours to delete.

        In the chart namespace and of cluster-wide kinds the label decides, as with the original. Tenants may put it on
        their own Secrets, so elsewhere only the credentials count that an installation has left or puts there now.
        """
        chart_namespace, config = self.chart_namespace, self._config_namespaces()
        return {
            address: live
            for address, live in self.module().items()
            if not address.is_secret
            or address.key.namespace in (chart_namespace, *config)
            or (isinstance(live, PartialObjectMetadata) and self.holds_credentials(live))
        }

    def holds_credentials(self, secret: PartialObjectMetadata) -> bool:
        """Whether this is the operand's credentials Secret as an installation has left it."""
        return version_record.holds_credentials(secret, self.recorded_credentials(), self._begun_moves())

    def recorded_credentials(self) -> version_record.CredentialsSecret | None:
        """The operand's credentials Secret that the record of the last installation names."""
        return version_record.CredentialsSecret.parse(self._record().get(version_record.CREDENTIALS_SECRET, ""))

    def begins_move(self, namespace: str) -> bool:
        """Whether the operand's credentials are to be in a namespace where no record names them."""
        recorded = self.recorded_credentials()
        former = recorded.namespace if recorded is not None else self.chart_namespace
        return namespace not in (former, *self._begun_moves())

    def _begun_moves(self) -> tuple[str, ...]:
        return version_record.parse_moves(self._record().get(version_record.CREDENTIALS_MOVES, ""))

    def _record(self) -> dict[str, str]:
        return self._config_map(api.VERSIONS_NAME)

    def present_credentials(self, namespace: str) -> version_record.CredentialsSecret | None:
        """The operand's credentials Secret that is in this namespace now, for the record."""
        secret = self.caches.secrets.get(ObjectKey(namespace, api.OPERAND_SECRET_NAME))
        return version_record.CredentialsSecret.of(secret) if secret is not None else None

    def _credentials_namespaces(self, required: BtpCredentials | SecretProblem) -> tuple[str, ...]:
        recorded = self.recorded_credentials()
        former = (recorded.namespace,) if recorded is not None else ()
        return credentials.possible_namespaces(required, self.operand_config(), (*former, *self._begun_moves()))

    def _config_namespaces(self) -> set[str]:
        """Where the operand is configured to look."""
        config = self.operand_config()
        return {config[key] for key in credentials.NAMESPACE_KEYS if key in config}

    def operand_config(self) -> dict[str, str]:
        """The data of the operand's ConfigMap; empty where there is none."""
        return self._config_map(api.OPERAND_CONFIG_NAME)

    def _config_map(self, name: str) -> dict[str, str]:
        found = self.caches.resources[ConfigMap.resource].store.get(ObjectKey(self.chart_namespace, name))
        data = found.at("data") if found is not None else None
        return {key: value for key, value in data.items() if isinstance(value, str)} if isinstance(data, dict) else {}


def _grant(informer: Cache, why: str) -> str:
    return f"{why}; grant the operator's ServiceAccount these verbs" if informer.is_forbidden else why
