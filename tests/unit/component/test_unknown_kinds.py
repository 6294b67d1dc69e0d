"""Templates that ask about kinds of a silent API service are not answered with their absence."""

from __future__ import annotations

import pytest

from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.component.component import set_checks
from stellwerk.operators.component.errors import KindsUnknown
from stellwerk.render.files.files import Files
from stellwerk.render.request.request import Rendered

pytestmark = pytest.mark.req("R-510")

UNKNOWN = ("metrics.k8s.io/v1beta1",)
ASKS = '{{ if .Capabilities.APIVersions.Has "metrics.k8s.io/v1beta1/PodMetrics" }}'
SERVICE: JsonObject = {
    "apiVersion": "apiregistration.k8s.io/v1",
    "kind": "APIService",
    "spec": {"group": "metrics.k8s.io", "version": "v1beta1"},
}


def rendered(*objects: JsonObject) -> Rendered:
    return Rendered("helm", objects, ("",) * len(objects), None, frozenset(("cluster",)), "d")


def test_a_template_that_asks_about_a_silent_group_is_not_rendered_without_it() -> None:
    with pytest.raises(KindsUnknown, match=r"kubectl get apiservice v1beta1\.metrics\.k8s\.io"):
        set_checks.check_kinds(rendered(), Files.of({"templates/a.yaml": ASKS}), UNKNOWN)


@pytest.mark.parametrize(
    "text",
    ["a: metrics.k8s.io", ASKS.replace("metrics.k8s.io", "policy"), "{{ .Capabilities.APIVersions }}\nmetrics.k8s.io"],
)
def test_other_templates_are(text: str) -> None:
    set_checks.check_kinds(rendered(), Files.of({"templates/a.yaml": text}), UNKNOWN)


def test_a_set_that_brings_the_api_service_is_rendered() -> None:
    set_checks.check_kinds(rendered(SERVICE), Files.of({"templates/a.yaml": ASKS}), UNKNOWN)
