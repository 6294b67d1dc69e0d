"""Templates that ask about kinds of a silent API service are not answered with their absence."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest

from stellwerk.kube import threads
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


def rendered(*objects: JsonObject, uses: str = "cluster") -> Rendered:
    return Rendered("helm", objects, ("",) * len(objects), None, frozenset((uses,)), "d")


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


def test_a_rendering_without_a_question_about_the_cluster_counts_whatever_its_files_mention() -> None:
    set_checks.check_kinds(rendered(uses="name"), Files.of({"README.md": ASKS}), UNKNOWN)


@pytest.mark.parametrize("before", [0, 2**16 - 40, 2**16 - 1, 2**16, 3 * 2**16 - 20])
def test_a_question_is_found_wherever_it_is_in_a_large_file(before: int) -> None:
    text = "x" * before + ASKS + "\n" * 2**17
    with pytest.raises(KindsUnknown):
        set_checks.check_kinds(rendered(), Files.of({"a.yaml": text}), UNKNOWN)


@pytest.mark.req("R-412")
async def test_a_hostile_file_leaves_the_interpreter_to_others_while_it_is_searched() -> None:
    files = Files.of({"a.yaml": ("APIVersions" * 2**17) + " metrics.k8s.io"})
    longest = 0.0
    search = asyncio.create_task(threads.run(lambda: set_checks.check_kinds(rendered(), files, UNKNOWN)))
    while not search.done():
        began = monotonic()
        await asyncio.sleep(0.001)
        longest = max(longest, monotonic() - began)
    with pytest.raises(KindsUnknown):
        await search
    assert longest < 0.1
