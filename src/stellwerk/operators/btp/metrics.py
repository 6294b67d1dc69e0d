"""The BTP Manager's own metrics: three under the original's names, and further ones of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from prometheus_client import Counter, Gauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from stellwerk.operators.btp.credentials.token_request import CredentialsVerdict
from stellwerk.runtime.telemetry.metrics import Metrics


class BtpMetrics:
    """Counts and shows what happens to the module."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._regenerations = Counter(
            "btpmanager_certs_regenerations",
            "How often certificates of the operand's webhooks were renewed",
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

    def show(self, in_force: Callable[[], Mapping[str, str]], ends: Callable[[], Mapping[str, datetime]]) -> None:
        """Show at each scrape the settings in force, by key and as people write them, and when certificates of the
        operand's webhooks end, by `ca` and `webhook`."""
        self._metrics.register(_AtScrapes(lambda: _settings(in_force())))
        self._metrics.register(_AtScrapes(lambda: _certificates(ends())))

    def regenerated(self) -> None:
        """Certificates were renewed."""
        self._regenerations.inc()

    def custom_config(self, exists: bool, rejected: int) -> None:
        """Whether the ConfigMap with tunables exists, and how many of its keys have no effect."""
        self._custom_config.set(int(exists))
        self._rejected.set(rejected)

    def credential_probe(self, alerts: bool) -> None:
        """What the CA-bundle probe found."""
        self._probe.set(int(alerts))

    def credential_check(self, verdict: CredentialsVerdict | None) -> None:
        """The result of a question to the token server; None: none is asked. No answer changes nothing."""
        if verdict is not None:
            self._checks.labels(verdict.value).inc()
        if verdict is not CredentialsVerdict.UNANSWERED:
            self._refused.set(int(verdict is CredentialsVerdict.REFUSED))


class _AtScrapes(Collector):
    """A family whose series are made for each scrape: what is gone leaves none behind."""

    def __init__(self, family: Callable[[], GaugeMetricFamily]) -> None:
        self._family = family

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing: what is there is asked at scrapes only."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The family as it is now."""
        yield self._family()


def _settings(in_force: Mapping[str, str]) -> GaugeMetricFamily:
    """What a setting is set to is a label, as with every `_info`: text is no number."""
    family = GaugeMetricFamily(
        "btpmanager_setting_info", "1 for each setting with the value that is in force", labels=("key", "value")
    )
    for key, value in in_force.items():
        family.add_metric((key, value), 1)
    return family


def _certificates(ends: Mapping[str, datetime]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "btpmanager_certificate_expiration_timestamp_seconds",
        "When a certificate of the operand's webhooks ends, in seconds since 1970",
        labels=("certificate",),
    )
    for name, end in ends.items():
        family.add_metric((name,), end.timestamp())
    return family
