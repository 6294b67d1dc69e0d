"""What a newcomer applies of the lifecycle manager is complete, in order, and says only what the kinds know."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from stellwerk.apply.objects.manifests import Document, read_folder
from stellwerk.cli.local import sample_files
from stellwerk.kube.types.model import Kind, decode_json, dig, encode_json, to_json_object
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_module import ModuleReleaseMeta, ModuleTemplate

K = TypeVar("K", bound=Kind)

FOLDER = Path(__file__).parents[3] / "samples" / "kyma"
APPLIED = read_folder(FOLDER)
KINDS: dict[str, type[Kind]] = {
    "Kyma": Kyma,
    "ModuleTemplate": ModuleTemplate,
    "ModuleReleaseMeta": ModuleReleaseMeta,
}


def of(kind: type[K]) -> list[K]:
    return [msgspec.convert(each.body, kind) for each in APPLIED if each.body["kind"] == kind.resource.kind]


def test_the_samples_come_in_the_order_in_which_they_can_be_applied() -> None:
    kinds = [*dict.fromkeys(str(each.body["kind"]) for each in APPLIED)]
    assert kinds == ["Namespace", "Secret", "ModuleTemplate", "ModuleReleaseMeta", "Kyma"]


@pytest.mark.parametrize("document", [each for each in APPLIED if each.body["kind"] in KINDS], ids=str)
def test_a_sample_has_no_field_that_its_kind_does_not_know(document: Document) -> None:
    kind = KINDS[str(document.body["kind"])]
    again = decode_json(encode_json(to_json_object(msgspec.convert(document.body, kind))))
    assert again["spec"] == document.body["spec"]


def test_each_channel_has_a_template_whose_objects_are_in_a_file() -> None:
    offered = {(each.spec.module_name, each.spec.version): each for each in of(ModuleTemplate)}
    (kyma,) = of(Kyma)
    metas = {each.spec.module_name: each for each in of(ModuleReleaseMeta)}
    assert {each.name for each in kyma.spec.modules} == {*metas}
    for name, meta in metas.items():
        assert kyma.spec.channel in [each.channel for each in meta.spec.channels]
        for each in meta.spec.channels:
            (resource,) = offered[name, each.version].spec.resources
            link = resource.link.replace("${samples}", str(FOLDER.parent))
            assert read_folder(Path(link).parent), link
            assert Path(link).is_file()


def test_the_login_is_to_a_cluster_beside_the_local_system() -> None:
    (secret,) = (each.body for each in APPLIED if each.body["kind"] == "Secret")
    assert dig(secret, "metadata", "labels", labels.KYMA_NAME_LABEL) == "demo"
    assert dig(secret, "stringData") == {labels.KUBECONFIG_KEY: ""}
    assert [each.folder.name for each in sample_files.clusters("local")] == ["local-runtime"]


def test_an_applied_sample_has_the_folder_of_this_machine() -> None:
    links = [str(dig(each, "spec", "resources")) for each in sample_files.bodies() if each["kind"] == "ModuleTemplate"]
    assert links
    assert all(FOLDER.parent.as_uri() in each and "${" not in each for each in links)
