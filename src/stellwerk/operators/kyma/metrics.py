"""The lifecycle manager's own metrics, under the names of the original.

States are read from caches at each scrape, so the series of a Kyma, a module or a Manifest go with it: there is nothing
to clean up, and a process that waits for the Lease shows the same as the leader. Of more Kymas than the process shows
objects (`--object-metrics-limit`), the others have no series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from prometheus_client import Counter, Gauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma, KymaStatus
from stellwerk.operators.kyma.api_manifest import Manifest, ManifestStatus
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta
from stellwerk.operators.kyma.api_status import State
from stellwerk.operators.kyma.requeues import KymaRequeue, ManifestRequeue, reason_of_kyma, reason_of_manifest
from stellwerk.operators.kyma.settings import FipsMode
from stellwerk.runtime.control.step import Step
from stellwerk.runtime.telemetry.metrics import Metrics

PREFIX = "lifecycle_mgr_"
LONG_PASS_SECONDS = 60.0
"""How long the pass of a Manifest takes at least that has a series."""
KYMA_STATES = (State.Ready, State.Processing, State.Error, State.Deleting, State.Warning)
MODULE_STATES = (*KYMA_STATES, State.Unmanaged)
_LEAST_PARTS_OF_A_DOMAIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Listings:
    """The caches that states are read from."""

    kymas: Callable[[], Iterable[Kyma]]
    manifests: Callable[[], Iterable[Manifest]]
    release_metas: Callable[[], Iterable[ModuleReleaseMeta]]
    overdue_certificates: Callable[[], Iterable[str]] = tuple
    """The Kymas whose certificate should have been renewed long ago, by name."""
    gateway_ends_soon: Callable[[], bool] = bool
    """Whether the certificate of the Gateway is close to its end."""


class KymaMetrics:
    """Counts and shows what happens to Kymas and their modules."""

    def __init__(self, metrics: Metrics, listings: Listings, fips_mode: FipsMode) -> None:
        self._requeues = Counter(
            f"{PREFIX}requeue_reason",
            "Why Kymas and Manifests were looked at again",
            ("requeue_reason", "requeue_type"),
            registry=None,
        )
        self._policy_was_read = _flag(
            "maintenance_window_config_read_success", "1 if the policy of maintenance windows could be read"
        )
        fips = _flag("fips_mode", "What GODEBUG asks for: 0 is off, 1 is on, 2 is only")
        fips.set(fips_mode)
        self._at_scrapes = _AtScrapes(listings, metrics.object_limit)
        for collector in (self._requeues, self._policy_was_read, fips, self._at_scrapes):
            metrics.register(collector)

    def requeued(self, reason: KymaRequeue | ManifestRequeue, *, intended: bool) -> None:
        """An object is looked at again: as planned, or because something failed."""
        self._requeues.labels(reason.value, "intended" if intended else "unexpected").inc()

    def maintenance_policy(self, *, was_read: bool) -> None:
        """Whether the policy of maintenance windows could be read."""
        self._policy_was_read.set(was_read)

    def manifest_pass(self, name: str, seconds: float) -> None:
        """A pass of a Manifest ended. A long one has a series until the next one that is not."""
        if seconds >= LONG_PASS_SECONDS:
            self._at_scrapes.long_passes[name] = seconds
        else:
            self._at_scrapes.long_passes.pop(name, None)

    def shows(self, kyma: Kyma) -> bool:
        """Whether a Kyma has series of its state and modules."""
        return identity(kyma) is not None and kyma.metadata.uid not in self._at_scrapes.hidden

    def hide(self, kyma: Kyma) -> None:
        """A Kyma that is being deleted has no series from now on, although it is still there."""
        self._at_scrapes.hidden.add(kyma.metadata.uid)


def identity(kyma: Kyma) -> tuple[str, str] | None:
    """The shoot and the instance of a Kyma, as labels of its series; None if it lacks one, so that it has no series."""
    instance = kyma.metadata.labels.get(labels.INSTANCE_ID_LABEL, "")
    parts = kyma.metadata.annotations.get(labels.SKR_DOMAIN_ANNOTATION, "").split(".")
    if not instance or not parts[0] or len(parts) < _LEAST_PARTS_OF_A_DOMAIN:
        return None
    return parts[0], instance


def _flag(name: str, help: str) -> Gauge:
    return Gauge(f"{PREFIX}{name}", help, registry=None)


class _AtScrapes(Collector):
    """The families whose series are made for each scrape."""

    def __init__(self, listings: Listings, limit: int) -> None:
        self._listings = listings
        self._limit = limit
        self.long_passes: dict[str, float] = {}
        """By the name of the Manifest. Only those that exist are shown and kept."""
        self.hidden: set[str] = set()
        """Uids of Kymas, as above."""

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The families without series."""
        return iter(_Families().all())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families as they are now."""
        families = _Families()
        kymas, manifests = [*self._listings.kymas()], [*self._listings.manifests()]
        self.hidden &= {each.metadata.uid for each in kymas}
        existing = {each.metadata.name for each in manifests}
        self.long_passes = {name: seconds for name, seconds in self.long_passes.items() if name in existing}

        shown = (each for each in kymas if each.metadata.uid not in self.hidden)
        for kyma in islice(shown, self._limit):
            families.add_kyma(kyma)
        mandatory = (each for each in manifests if each.metadata.labels.get(labels.MANDATORY_MODULE_LABEL) == "true")
        for manifest in islice(mandatory, self._limit):
            families.add_mandatory(manifest)
        metas = self._listings.release_metas()
        families.mandatory_modules.add_metric((), sum(each.spec.mandatory is not None for each in metas))
        for name in sorted({each.metadata.name for each in kymas} & {*self._listings.overdue_certificates()}):
            families.overdue.add_metric((name,), 1)
        families.gateway.add_metric((), self._listings.gateway_ends_soon())
        for name, seconds in sorted(self.long_passes.items()):
            families.long_passes.add_metric((name,), seconds)
        return iter(families.all())


class _Families:
    """One of each family, still without series."""

    def __init__(self) -> None:
        runtime = ("shoot", "instance_id")
        self.kymas = _family("kyma_state", "1 for the state of the Kyma, else 0", "kyma_name", "state", *runtime)
        self.modules = _family(
            "module_state", "1 for the state of the module, else 0", "module_name", "kyma_name", "state", *runtime
        )
        self.mandatory_modules = _family("mandatory_modules", "How many modules every Kyma gets")
        self.mandatory = _family(
            "mandatory_module_state",
            "1 for the state of the module that every Kyma gets, else 0",
            *("module_name", "kyma_name", "state"),
        )
        self.overdue = _family(
            "self_signed_cert_not_renew", "1 while the certificate of the Kyma is not renewed in time", "kyma_name"
        )
        self.gateway = _family(
            "gateway_secret_server_cert_close_to_expiry", "1 while the certificate of the Gateway is close to its end"
        )
        self.long_passes = GaugeMetricFamily(
            "reconcile_duration_seconds",
            f"How long the last pass of a Manifest took, if at least {LONG_PASS_SECONDS:g}",
            labels=("manifest_name",),
        )

    def all(self) -> tuple[GaugeMetricFamily, ...]:
        modules = (self.mandatory_modules, self.mandatory)
        return self.kymas, self.modules, *modules, self.overdue, self.gateway, self.long_passes

    def add_kyma(self, kyma: Kyma) -> None:
        runtime = identity(kyma)
        if runtime is None:
            return
        for state in KYMA_STATES:
            self.kymas.add_metric((kyma.metadata.name, state, *runtime), state is kyma.status.state)
        for module in kyma.status.modules:
            for state in MODULE_STATES:
                shown = (module.name, kyma.metadata.name, state, *runtime)
                self.modules.add_metric(shown, state is module.state)

    def add_mandatory(self, manifest: Manifest) -> None:
        module = manifest.metadata.labels.get(labels.MODULE_NAME_LABEL, "")
        kyma = manifest.metadata.labels.get(labels.KYMA_NAME_LABEL, "")
        for state in MODULE_STATES:
            self.mandatory.add_metric((module, kyma, state), state is manifest.status.state)


def _family(name: str, help: str, *keys: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}{name}", help, labels=keys)


# ---- passes


@dataclass(frozen=True, slots=True)
class KymaPasses:
    """Counts the steps of Kymas."""

    metrics: KymaMetrics

    def stepped(self, obj: Kyma, step: Step[KymaStatus], *, failed: bool) -> None:
        """As `Observer.stepped`."""
        reason = reason_of_kyma(obj, step)
        self.metrics.requeued(reason, intended=not failed and not _shows_error(step.status))

    def passed(self, obj: Kyma, seconds: float) -> None:
        """As `Observer.passed`: the original measures Manifests alone."""


@dataclass(frozen=True, slots=True)
class ManifestPasses:
    """Counts the steps of Manifests, and measures their passes."""

    metrics: KymaMetrics

    def stepped(self, obj: Manifest, step: Step[ManifestStatus], *, failed: bool) -> None:
        """As `Observer.stepped`."""
        reason = reason_of_manifest(obj, step)
        self.metrics.requeued(reason, intended=not failed and not _shows_error(step.status))

    def passed(self, obj: Manifest, seconds: float) -> None:
        """As `Observer.passed`."""
        self.metrics.manifest_pass(obj.metadata.name, seconds)


def _shows_error(status: KymaStatus | ManifestStatus | None) -> bool:
    return status is not None and status.state is State.Error
