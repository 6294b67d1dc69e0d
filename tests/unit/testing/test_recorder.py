"""Two runs compare as equal when only chance differs, and a true difference stays visible."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from stellwerk.kube.types.model import JsonObject
from stellwerk.testing.scenarios.normalize import Masks
from stellwerk.testing.scenarios.recorder import Run, RunsDiffer, Write, assert_same, difference

ONE = "0b7f3f0e-1111-4222-8333-444455556666"
TWO = "1c7f3f0e-1111-4222-8333-444455556666"
PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"


def base64_text(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def owner(uid: str = ONE, namespace: str = "test-1") -> JsonObject:
    return {
        "kind": "ConfigMap",
        "metadata": {
            "name": "owner",
            "namespace": namespace,
            "uid": uid,
            "resourceVersion": uid[:4],
            "creationTimestamp": "2030-01-01T00:00:00Z",
            "generation": 3,
        },
        "data": {"where": f"{namespace}.svc"},
    }


def child(owner_uid: str, name: str = "child", **more: str) -> JsonObject:
    reference: JsonObject = {"kind": "ConfigMap", "name": "owner", "uid": owner_uid}
    return {"kind": "Pod", "metadata": {"name": name, "ownerReferences": [reference], **more}}


def masked(*objects: JsonObject, masks: Masks | None = None) -> dict[str, JsonObject]:
    return (masks or Masks(words={"test-1": "NAMESPACE", "test-2": "NAMESPACE"})).objects(objects)


def test_what_the_server_chose_does_not_differ() -> None:
    assert masked(owner(ONE, "test-1")) == masked(owner(TWO, "test-2"))
    assert list(masked(owner())) == ["ConfigMap/NAMESPACE/owner"]


def test_an_owner_reference_is_known_by_its_owner() -> None:
    assert masked(owner(ONE), child(ONE)) == masked(owner(TWO), child(TWO))
    assert masked(owner(ONE), child(ONE)) != masked(owner(ONE), child(TWO))


def test_generated_names_are_numbered_by_content() -> None:
    first = masked(child(ONE, "pod-x", generateName="pod-"), child(TWO, "pod-y", generateName="pod-", extra="1"))
    again = masked(child(TWO, "pod-a", generateName="pod-", extra="1"), child(ONE, "pod-b", generateName="pod-"))
    assert first == again
    assert sorted(first) == ["Pod/pod-*", "Pod/pod-* (2)"]


def test_an_observed_generation_tells_whether_it_is_the_present_one() -> None:
    def seen(generation: int, observed: int) -> dict[str, JsonObject]:
        status: JsonObject = {"conditions": [{"observedGeneration": observed}]}
        return masked({"kind": "Thing", "metadata": {"name": "one", "generation": generation}, "status": status})

    assert seen(2, 2) == seen(5, 5) != seen(5, 4)


def test_certificates_and_addresses_are_left_out_and_secret_texts_are_opened() -> None:
    secret: JsonObject = {
        "kind": "Secret",
        "metadata": {"name": "one"},
        "data": {"tls.crt": base64_text(PEM), "host": base64_text("test-1.example.com"), "raw": "//79"},
    }
    assert masked(secret)["Secret/one"]["data"] == {
        "tls.crt": "<CERTIFICATE>",
        "host": "NAMESPACE.example.com",
        "raw": "//79",
    }
    service: JsonObject = {"kind": "Service", "metadata": {"name": "s"}, "spec": {"clusterIP": "10.0.0.7"}}
    headless: JsonObject = {"kind": "Service", "metadata": {"name": "s"}, "spec": {"clusterIP": "None"}}
    assert masked(service)["Service/s"]["spec"] == {"clusterIP": "<address>"}
    assert masked(headless)["Service/s"]["spec"] == {"clusterIP": "None"}
    webhook: JsonObject = {"kind": "W", "metadata": {"name": "w"}, "webhooks": [{"caBundle": base64_text(PEM)}]}
    assert masked(webhook)["W/w"]["webhooks"] == [{"caBundle": "<PEM in base64>"}]


def test_a_caller_masks_paths() -> None:
    masks = Masks(paths=[("spec", "*", "hash"), ("metadata", "annotations", "example.com/checksum")])
    thing: JsonObject = {
        "kind": "Thing",
        "metadata": {"name": "one", "annotations": {"example.com/checksum": "1", "kept": "2"}},
        "spec": [{"hash": "3", "kept": 4}],
    }
    seen = masked(thing, masks=masks)["Thing/one"]
    assert seen["spec"] == [{"hash": "<masked>", "kept": 4}]
    assert seen["metadata"] == {
        "name": "one",
        "annotations": {"example.com/checksum": "<masked>", "kept": "2"},
    }


def test_a_difference_reads_as_one() -> None:
    clean = Run([], masked(owner(), {"kind": "Pod", "metadata": {"name": "gone"}}))
    changed = owner()
    changed["data"] = {"where": "elsewhere"}
    replay = Run([], masked(changed, {"kind": "Pod", "metadata": {"name": "orphan"}}))
    assert difference(clean, replay).splitlines() == [
        "ConfigMap/NAMESPACE/owner differs:",
        "  @@ -1,3 +1,3 @@",
        "  -data.where: 'NAMESPACE.svc'",
        "  +data.where: 'elsewhere'",
        "   kind: 'ConfigMap'",
        "   metadata.creationTimestamp: '<time>'",
        "- Pod/gone is missing",
        "+ Pod/orphan is left over",
    ]
    with pytest.raises(RunsDiffer, match="Pod/orphan is left over"):
        assert_same(clean, replay)


def test_writes_compare_in_the_order_that_is_promised() -> None:
    a1, a2, b = Write("create", "pods a"), Write("patch", "pods a"), Write("create", "pods b")
    clean, shuffled, swapped = Run([a1, a2, b], {}), Run([b, a1, a2], {}), Run([a2, a1, b], {})
    assert_same(clean, shuffled, writes="per object")
    assert_same(clean, swapped)
    with pytest.raises(RunsDiffer, match=r"the writes differ \(exact\)"):
        assert_same(clean, shuffled, writes="exact")
    with pytest.raises(RunsDiffer, match=r"the writes differ \(per object\)"):
        assert_same(clean, swapped, writes="per object")


def test_a_run_survives_the_disk(tmp_path: Path) -> None:
    run = Run([Write("create", "pods a", {"spec": {"x": 1}})], masked(owner(), child(ONE)))
    run.save(tmp_path / "run.json")
    assert Run.load(tmp_path / "run.json") == run
    assert json.loads((tmp_path / "run.json").read_text())["writes"][0]["target"] == "pods a"
