"""The metrics of the lifecycle manager have the names, types and labels of the original, and end with their objects."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma, KymaStatus, ModuleStatus
from stellwerk.operators.kyma.api_manifest import Manifest, ManifestStatus
from stellwerk.operators.kyma.api_module import MandatoryVersion, ModuleReleaseMeta, ModuleReleaseMetaSpec
from stellwerk.operators.kyma.api_status import State
from stellwerk.operators.kyma.metrics import KymaMetrics, Listings, identity
from stellwerk.operators.kyma.requeues import KymaRequeue, ManifestRequeue
from stellwerk.operators.kyma.settings import FipsMode
from stellwerk.runtime.telemetry.metrics import Metrics


def kyma(name: str = "k", state: State = State.Ready, domain: str = "c-1.kyma.example.com", **modules: State) -> Kyma:
    return Kyma(
        metadata=ObjectMeta(
            name=name,
            uid=f"uid-{name}",
            labels={labels.INSTANCE_ID_LABEL: "i-1"},
            annotations={labels.SKR_DOMAIN_ANNOTATION: domain},
        ),
        status=KymaStatus(
            state=state, modules=tuple(ModuleStatus(name=name, state=each) for name, each in modules.items())
        ),
    )


def mandatory(name: str, state: State) -> Manifest:
    marks = {
        labels.MANDATORY_MODULE_LABEL: "true",
        labels.MODULE_NAME_LABEL: "warden",
        labels.KYMA_NAME_LABEL: "k",
    }
    return Manifest(metadata=ObjectMeta(name=name, labels=marks), status=ManifestStatus(state=state))


@dataclass
class Shown:
    """The metrics of a process with these objects in its caches."""

    kymas: list[Kyma] = field(default_factory=list)
    manifests: list[Manifest] = field(default_factory=list)
    metas: list[ModuleReleaseMeta] = field(default_factory=list)
    overdue: list[str] = field(default_factory=list)
    ends_soon: bool = False
    limit: int = 2_000

    def __post_init__(self) -> None:
        self.registry = Metrics(object_limit=self.limit)
        listings = Listings(
            kymas=lambda: self.kymas,
            manifests=lambda: self.manifests,
            release_metas=lambda: self.metas,
            overdue_certificates=lambda: self.overdue,
            gateway_ends_soon=lambda: self.ends_soon,
        )
        self.metrics = KymaMetrics(self.registry, listings, FipsMode.ONLY)

    def lines(self, beginning: str) -> set[str]:
        return {each for each in self.registry.exposition().decode().splitlines() if each.startswith(beginning)}


def test_every_metric_has_the_type_of_the_original() -> None:
    shown = Shown()

    assert shown.lines("# TYPE lifecycle_mgr_") | shown.lines("# TYPE reconcile_duration") == {
        "# TYPE lifecycle_mgr_requeue_reason_total counter",
        *(
            f"# TYPE lifecycle_mgr_{name} gauge"
            for name in (
                "kyma_state",
                "module_state",
                "mandatory_modules",
                "mandatory_module_state",
                "self_signed_cert_not_renew",
                "gateway_secret_server_cert_close_to_expiry",
                "maintenance_window_config_read_success",
                "fips_mode",
            )
        ),
        "# TYPE reconcile_duration_seconds gauge",
    }


def test_one_state_of_a_kyma_and_of_each_of_its_modules_is_one() -> None:
    shown = Shown([kyma(state=State.Warning, keda=State.Unmanaged)])
    states = ("Ready", "Processing", "Error", "Deleting", "Warning")

    assert shown.lines("lifecycle_mgr_kyma_state{") == {
        f'lifecycle_mgr_kyma_state{{instance_id="i-1",kyma_name="k",shoot="c-1",state="{state}"}} '
        f"{float(state == 'Warning')}"
        for state in states
    }
    assert shown.lines("lifecycle_mgr_module_state{") == {
        f'lifecycle_mgr_module_state{{instance_id="i-1",kyma_name="k",module_name="keda",shoot="c-1",state="{state}"}} '
        f"{float(state == 'Unmanaged')}"
        for state in (*states, "Unmanaged")
    }


def test_series_go_with_the_module_and_with_the_kyma() -> None:
    shown = Shown([kyma(keda=State.Ready, serverless=State.Ready)])
    assert len(shown.lines("lifecycle_mgr_module_state{")) == 12

    shown.kymas = [kyma(keda=State.Ready)]
    assert len(shown.lines("lifecycle_mgr_module_state{")) == 6

    shown.kymas = []
    assert not shown.lines("lifecycle_mgr_module_state{") | shown.lines("lifecycle_mgr_kyma_state{")


def test_a_kyma_that_is_being_deleted_loses_its_series_and_one_of_its_name_has_its_own() -> None:
    old, new = kyma(), kyma()
    shown = Shown([old])
    assert shown.metrics.shows(old)

    shown.metrics.hide(old)

    assert not shown.metrics.shows(old)
    assert not shown.lines("lifecycle_mgr_kyma_state{")
    shown.kymas = []
    assert not shown.lines("lifecycle_mgr_kyma_state{")
    shown.kymas = [new]
    assert shown.metrics.shows(new)
    assert len(shown.lines("lifecycle_mgr_kyma_state{")) == 5


@pytest.mark.parametrize("domain", ["", "example.com", "c-1", ".kyma.example.com"])
def test_a_kyma_without_a_domain_of_three_parts_has_no_series(domain: str) -> None:
    shown = Shown([kyma(domain=domain, keda=State.Ready)])

    assert identity(shown.kymas[0]) is None
    assert not shown.metrics.shows(shown.kymas[0])
    assert not shown.lines("lifecycle_mgr_kyma_state{") | shown.lines("lifecycle_mgr_module_state{")


def test_a_kyma_without_an_instance_has_no_series() -> None:
    annotations = {labels.SKR_DOMAIN_ANNOTATION: "c-1.kyma.example.com"}

    assert identity(Kyma(metadata=ObjectMeta(name="k", annotations=annotations))) is None


def test_only_so_many_kymas_have_series_as_objects_are_shown() -> None:
    shown = Shown([kyma(f"k-{number}") for number in range(10)], limit=3)

    assert len(shown.lines("lifecycle_mgr_kyma_state{")) == 3 * 5


def test_mandatory_modules_are_counted_and_shown_by_kyma() -> None:
    meta = ModuleReleaseMeta(spec=ModuleReleaseMetaSpec(mandatory=MandatoryVersion(version="1.0.0")))
    other = Manifest(metadata=ObjectMeta(name="keda"), status=ManifestStatus(state=State.Ready))
    shown = Shown(manifests=[mandatory("k-warden", State.Error), other], metas=[meta, ModuleReleaseMeta()])

    assert shown.lines("lifecycle_mgr_mandatory_modules ") == {"lifecycle_mgr_mandatory_modules 1.0"}
    series = shown.lines("lifecycle_mgr_mandatory_module_state{")
    assert len(series) == 6
    error = 'lifecycle_mgr_mandatory_module_state{kyma_name="k",module_name="warden",state="Error"} 1.0'
    assert {each for each in series if each.endswith(" 1.0")} == {error}


def test_a_long_pass_of_a_manifest_has_a_series_until_a_short_one_or_the_end_of_the_manifest() -> None:
    shown = Shown(manifests=[mandatory(name, State.Ready) for name in ("a", "b")])
    for name, seconds in (("a", 60.0), ("b", 75.5), ("gone", 99.0), ("short", 59.9)):
        shown.metrics.manifest_pass(name, seconds)
    assert shown.lines("reconcile_duration_seconds{") == {
        'reconcile_duration_seconds{manifest_name="a"} 60.0',
        'reconcile_duration_seconds{manifest_name="b"} 75.5',
    }

    shown.metrics.manifest_pass("a", 1.0)
    shown.manifests = [mandatory("a", State.Ready)]

    assert not shown.lines("reconcile_duration_seconds{")


def test_an_overdue_certificate_is_shown_until_it_is_renewed_or_the_kyma_is_gone() -> None:
    shown = Shown([kyma("a"), kyma("b")])
    shown.overdue = ["b", "a", "gone"]
    assert len(shown.lines("lifecycle_mgr_self_signed_cert_not_renew{")) == 2

    shown.overdue = ["b", "gone"]
    assert shown.lines("lifecycle_mgr_self_signed_cert_not_renew{") == {
        'lifecycle_mgr_self_signed_cert_not_renew{kyma_name="b"} 1.0'
    }
    shown.kymas = []
    assert not shown.lines("lifecycle_mgr_self_signed_cert_not_renew{")


def test_reasons_to_look_again_are_counted_as_intended_or_not() -> None:
    shown = Shown()
    shown.metrics.requeued(KymaRequeue.DEFINITIONS, intended=False)
    shown.metrics.requeued(ManifestRequeue.FINISHED, intended=True)

    total = "lifecycle_mgr_requeue_reason_total"
    assert shown.lines(f"{total}{{") == {
        f'{total}{{requeue_reason="crds_sync",requeue_type="unexpected"}} 1.0',
        f'{total}{{requeue_reason="manifest_reconcile_finished",requeue_type="intended"}} 1.0',
    }
    assert (len(KymaRequeue), len(ManifestRequeue)) == (20, 20)


def test_what_concerns_the_whole_process_is_zero_until_it_is_known() -> None:
    shown = Shown()
    names = ("gateway_secret_server_cert_close_to_expiry", "maintenance_window_config_read_success", "fips_mode")

    def values() -> list[str]:
        return [line.rpartition(" ")[2] for name in names for line in shown.lines(f"lifecycle_mgr_{name} ")]

    assert values() == ["0.0", "0.0", "2.0"]
    shown.ends_soon = True
    shown.metrics.maintenance_policy(was_read=True)
    assert values() == ["1.0", "1.0", "2.0"]
