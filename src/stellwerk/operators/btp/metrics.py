"""What the BTP Manager counts beside the engine: three numbers under the original's names, and further ones of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import Counter, Gauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from stellwerk.operators.btp.token_request import Verdict
from stellwerk.runtime.metrics import Metrics


class BtpMetrics:
    """Counts and shows what happens to the module."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._regenerations = Counter(
            "btpmanager_certs_regenerations",
            "How often certificates of the operand's webhooks were made anew",
            registry=None,
        )
        self._custom_config = Gauge(
            "btpmanager_custom_config_applied", "1 while the ConfigMap with tunables exists, else 0", registry=None
        )
        self._rejected = Gauge(
            "btpmanager_custom_config_rejected_keys", "Keys of the ConfigMap that have no effect", registry=None
        )
        self._probe = Gauge(
            "btpmanager_credential_probe_status", "1 while the CA-bundle probe alerts, else 0", registry=None
        )
        self._refused = Gauge(
            "btpmanager_credentials_refused",
            "1 while SAP Service Manager's token server refuses the credentials, as far as it was asked, else 0",
            registry=None,
        )
        self._checks = Counter(
            "btpmanager_credential_checks",
            "Questions to the token server whether the credentials are good, by what they came to",
            ("result",),
            registry=None,
        )
        own = (self._regenerations, self._custom_config, self._rejected, self._probe, self._refused, self._checks)
        for collector in own:
            metrics.register(collector)

    def show(self, in_force: Callable[[], Mapping[str, str]]) -> None:
        """Show the settings in force, by key and as people write them, at each scrape."""
        self._metrics.register(_InForce(in_force))

    def regenerated(self) -> None:
        """Certificates were made anew."""
        self._regenerations.inc()

    def custom_config(self, exists: bool, rejected: int) -> None:
        """Whether the ConfigMap with tunables exists, and how many of its keys have no effect."""
        self._custom_config.set(int(exists))
        self._rejected.set(rejected)

    def credential_probe(self, alerts: bool) -> None:
        """What the CA-bundle probe found."""
        self._probe.set(int(alerts))

    def credential_check(self, verdict: Verdict | None) -> None:
        """What a question to the token server came to; None: none is asked. Silence says nothing new."""
        if verdict is not None:
            self._checks.labels(verdict.value).inc()
        if verdict is not Verdict.UNANSWERED:
            self._refused.set(int(verdict is Verdict.REFUSED))


class _InForce(Collector):
    """One series for each setting. What it is set to is a label, as with every `_info`: text is no number."""

    def __init__(self, in_force: Callable[[], Mapping[str, str]]) -> None:
        self._in_force = in_force

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The family without its series: what is in force is asked at scrapes only."""
        yield self._family()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The family as it is now."""
        family = self._family()
        for key, value in self._in_force().items():
            family.add_metric((key, value), 1)
        yield family

    @staticmethod
    def _family() -> GaugeMetricFamily:
        return GaugeMetricFamily(
            "btpmanager_setting_info", "1 for each setting with the value that is in force", labels=("key", "value")
        )
