"""What there is to see: the caches, read into frozen values. Nothing here writes.

Three things are read from the API server, and only when a cache says that they are new: the values of the required
Secret, of the operand's own Secret, and of the two certificate Secrets. The caches hold Secrets without their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.api.core import ConfigMap, Secret
from stellwerk.apply.desired import Address
from stellwerk.apply.plan import Live
from stellwerk.kube.client import Client
from stellwerk.kube.errors import ApiError
from stellwerk.kube.model import HasMetadata, Kind, PartialObjectMetadata
from stellwerk.kube.names import ObjectKey
from stellwerk.operators.btp import api, credentials, plan
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.credentials import Comparison, Credentials, OperandPod, SecretProblem
from stellwerk.operators.btp.errors import Unread
from stellwerk.operators.btp.plan import Blockers, Snapshot
from stellwerk.operators.btp.reasons import Reason
from stellwerk.operators.btp.release import comes_from_chart
from stellwerk.operators.btp.settings import CrSelection, Settings
from stellwerk.operators.btp.setup import Caches, Sight, is_forbidden
from stellwerk.runtime import logs
from stellwerk.runtime.clock import Clock


class SecretReader:
    """The values of the few Secrets that we need, each read once per version and then kept.

    Those that are secret indeed are given to `hide` before anybody else gets them.
    """

    def __init__(self, client: Client, *, hide: Callable[..., None] = logs.hide) -> None:
        self._client = client
        self._hide = hide
        self._known: dict[ObjectKey, Secret] = {}

    async def read(self, seen: PartialObjectMetadata | None) -> Secret | None:
        """The Secret that a cache has seen; None where it has seen none, or it is gone by now. Raises ApiError."""
        if seen is None:
            return None
        known = self._known.get(seen.key)
        if known is None or not _same_version(known, seen):
            known = await self._client.find(Secret, seen.metadata.name, seen.metadata.namespace)
            self.keep(seen.key, known)
        return known

    def keep(self, key: ObjectKey, secret: Secret | None) -> None:
        """Remember what a write answered, so that it need not be read back."""
        if secret is None:
            self._known.pop(key, None)
        else:
            self._hide(*credentials.secret_texts(secret.data))
            self._known[key] = secret


def _same_version(known: HasMetadata, seen: HasMetadata) -> bool:
    return (known.metadata.uid, known.metadata.resource_version) == (seen.metadata.uid, seen.metadata.resource_version)


@dataclass(frozen=True, slots=True)
class Observer:
    """Reads the caches. `settings` answers with those in force now; `finished` are CRs whose module is gone."""

    caches: Caches
    secrets: SecretReader
    settings: Callable[[], Settings]
    clock: Clock
    finished: set[str]

    async def snapshot(self, operator: BtpOperator) -> Snapshot:
        """All that decides about one BtpOperator. Raises Unread."""
        settings = self.settings()
        for informer in [*self.caches.users.values()]:  # a kind may come to be served while we wait
            await informer.wait_settled()
        required, leader = await self.required_secret(), self.leader()
        works = leader is not None and leader.metadata.uid == operator.metadata.uid
        compared = None
        if works and isinstance(required, Credentials) and not operator.metadata.is_terminating:
            compared = await self.comparison(required)
        return Snapshot(
            operator=operator,
            leader=leader,
            fixed=settings.cr_selection is CrSelection.FIXED,
            required_secret=required,
            comparison=compared,
            blockers=self.blockers(),
            now=self.clock.now(),
            hard_delete_timeout=settings.hard_delete_timeout,
            from_chart=comes_from_chart(settings),
        )

    def leader(self) -> BtpOperator | None:
        """The CR that represents the module."""
        present = [cr for cr in self.caches.operators.store.all() if cr.metadata.uid not in self.finished]
        return plan.leader(present, fixed=self.settings().cr_selection is CrSelection.FIXED)

    def blockers(self) -> Blockers:
        """The service instances and bindings of users, in all namespaces."""
        return Blockers(self._keys(ServiceInstance), self._keys(ServiceBinding))

    async def required_secret(self) -> Credentials | SecretProblem:
        """What the required Secret says, or what is wrong with it."""
        settings = self.settings()
        key = ObjectKey(settings.chart_namespace, settings.secret_name)
        try:
            secret = await self.secrets.read(self.caches.secrets.store.get(key))
        except ApiError as error:
            return credentials.unreadable(key, str(error))
        if secret is None:
            return credentials.missing(key)
        return credentials.read(secret.data, secret.metadata.annotations, default_namespace=settings.chart_namespace)

    async def comparison(self, wanted: Credentials) -> Comparison:
        """What the required Secret asks for beside what the operand has. Raises Unread."""
        namespace = credentials.operand_namespace(self._operand_secret_namespaces(), wanted)
        key = ObjectKey(namespace, api.CLUSTER_ID_SECRET_NAME)
        try:
            own = await self.secrets.read(self.caches.cluster_id_secrets.store.get(key))
        except ApiError as error:
            reason = Reason.GettingSapBtpServiceOperatorClusterIdSecretFailed
            raise Unread(reason, f"Secret {key}", str(error)) from error
        return Comparison(
            wanted=wanted,
            namespace=namespace,
            config_cluster_id=self._configured_cluster_id(),
            initial_cluster_id=credentials.initial_cluster_id(own.data) if own else None,
        )

    def check_sight(self) -> None:
        """Raises Unread where we may not look at what decides: taken for absent, it would be made anew or moved."""
        config = ObjectKey(self.settings().chart_namespace, api.OPERAND_CONFIG_NAME)
        deciding: tuple[tuple[Sight, str, Reason], ...] = (
            (self.caches.secrets, "Secrets", Reason.GettingDefaultCredentialsSecretFailed),
            (
                self.caches.resources[ConfigMap.resource],
                f"ConfigMap {config}",
                Reason.GettingSapBtpServiceOperatorConfigMapFailed,
            ),
            (
                self.caches.cluster_id_secrets,
                f"Secret {api.CLUSTER_ID_SECRET_NAME}",
                Reason.GettingSapBtpServiceOperatorClusterIdSecretFailed,
            ),
        )
        for informer, what, reason in deciding:
            if is_forbidden(informer):
                raise Unread(reason, what, _why_parked(informer))

    def unseen(self) -> str:
        """Which objects of the module we may not look at, in a sentence; empty where we may look at all."""
        return next((_why_parked(informer) for informer in self.caches.of_module() if is_forbidden(informer)), "")

    def operand_pods(self) -> list[OperandPod]:
        """The pods that carry the operand's instance label."""
        return [OperandPod(pod.key, pod.is_ready) for pod in self.caches.pods.store.all()]

    def module(self) -> dict[Address, Live]:
        """Everything in the cluster that carries our managed-by label, Secrets as metadata."""
        present: dict[Address, Live] = {
            Address(Secret.resource, secret.key): secret
            for secret in self.caches.secrets.store.all()
            if secret.metadata.labels.get(api.MANAGED_BY_LABEL) == api.OPERATOR_NAME
        }
        for resource, informer in self.caches.resources.items():
            present.update((Address(resource, obj.key), obj) for obj in informer.store.all())
        return present

    def _keys(self, kind: type[Kind]) -> tuple[ObjectKey, ...]:
        return tuple(sorted(obj.key for obj in self.caches.of_users(kind)))

    def _operand_secret_namespaces(self) -> Iterable[str]:
        for secret in self.caches.secrets.store.all():
            ours = secret.metadata.labels.get(api.MANAGED_BY_LABEL) == api.OPERATOR_NAME
            if ours and secret.metadata.name == api.OPERAND_SECRET_NAME and not secret.metadata.is_terminating:
                yield secret.metadata.namespace

    def _configured_cluster_id(self) -> str | None:
        key = ObjectKey(self.settings().chart_namespace, api.OPERAND_CONFIG_NAME)
        config = self.caches.resources[ConfigMap.resource].store.get(key)
        value = config.at("data", "CLUSTER_ID") if config else None
        return value if isinstance(value, str) else None


def _why_parked(informer: Sight) -> str:
    why = informer.parked.why if informer.parked is not None else ""
    return f"{why}; grant the operator's ServiceAccount these verbs"
