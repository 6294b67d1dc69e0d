"""The Kymas that a changed channel concerns."""

from __future__ import annotations

from typing import cast

import pytest

from stellwerk.delivery.insight import PreviewFailed, PreviewRequest
from stellwerk.kube.types.model import JsonObject
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.kyma.api import Kyma, ModuleStatus
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.api_module import ModuleTemplate, ModuleTemplateSpec
from stellwerk.operators.kyma.api_status import State
from stellwerk.operators.kyma.insight.previews import Reach, TemplatePreviewer
from stellwerk.operators.kyma.module.resolution import Plan

TEMPLATE = ModuleTemplateSpec(module_name="keda", version="1.0.0")


def kyma(name: str) -> Kyma:
    return Kyma(metadata=ObjectMeta(name=name, namespace="kcp-system"))


def module(state: State, message: str = "") -> ModuleStatus:
    return ModuleStatus(name="keda", state=state, version="1.0.0", message=message)


def wanted(name: str) -> JsonObject:
    resource = Manifest.resource
    metadata: JsonObject = {"name": f"{name}-keda", "namespace": "kcp-system"}
    spec: JsonObject = {"version": "2.0.0", "remote": True, "install": {"name": "raw-manifest", "source": {}}}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


def test_kymas_that_change_that_are_held_and_that_stay_are_told_apart() -> None:
    reach = Reach()
    window = "waiting for next maintenance window to update module version"
    for name, shown, plan in (
        ("a", module(State.Error), Plan(name="keda", status=None, wanted=wanted("a"))),
        ("b", module(State.Ready), Plan(name="keda", status=None, wanted=wanted("b"))),
        ("c", module(State.Ready), Plan(name="keda", status=module(State.Ready, window))),
        ("d", module(State.Ready), Plan(name="keda", status=module(State.Ready))),
    ):
        reach.note(kyma(name), shown, plan)
    assert {str(ref): why for ref, why in reach.changed.items()} == {
        "Manifest kcp-system/a-keda": "Kyma kcp-system/a: version 1.0.0 -> 2.0.0",
        "Manifest kcp-system/b-keda": "Kyma kcp-system/b: version 1.0.0 -> 2.0.0",
    }
    assert (reach.same, dict(reach.held)) == (1, {window: 1})
    assert reach.example == (kyma("b"), wanted("b"))  # a Ready one shows best what changes


def test_a_module_that_is_not_allowed_any_more_goes() -> None:
    reach, manifest = Reach(), Manifest(metadata=ObjectMeta(name="a-keda", namespace="kcp-system"))
    said = "module template not allowed: beta module"
    reach.note(kyma("a"), module(State.Ready), Plan(name="keda", status=module(State.Error, said), removed=manifest))
    assert {str(ref): why for ref, why in reach.deleted.items()} == {"Manifest kcp-system/a-keda": said}
    assert reach.example is None


async def test_a_template_has_no_writes_and_leads_to_its_meta() -> None:
    template = ModuleTemplate(metadata=ObjectMeta(name="keda-1.0.0", namespace="n"), spec=TEMPLATE)
    with pytest.raises(PreviewFailed) as caught:
        await TemplatePreviewer().preview(template, cast("PreviewRequest", None))
    assert caught.value.fix == "compare that: stellwerk diff mrm/keda -n n"
