"""What a newcomer applies is complete and means what its comments say."""

from __future__ import annotations

import base64
from pathlib import Path

from stellwerk.apply.objects.manifests import read_folder
from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.operators.btp.credentials import credentials
from stellwerk.operators.btp.settings import TABLE, Settings

SAMPLES = {str(d.body["kind"]): d.body for d in read_folder(Path(__file__).parents[3] / "samples" / "btp")}


def texts(body: JsonObject, *path: str) -> dict[str, str]:
    found = dig(body, *path)
    assert isinstance(found, dict)
    return {key: str(value) for key, value in found.items()}


def test_the_samples_come_in_the_order_in_which_they_can_be_applied() -> None:
    assert list(SAMPLES) == ["Namespace", "PriorityClass", "Secret", "ConfigMap", "BtpOperator"]


def test_the_sample_secret_is_complete_and_labelled() -> None:
    data = {
        key: base64.b64encode(value.encode()).decode() for key, value in texts(SAMPLES["Secret"], "stringData").items()
    }

    assert isinstance(credentials.read(data, {}, default_namespace="kyma-system"), credentials.BtpCredentials)
    assert credentials.is_for_us(texts(SAMPLES["Secret"], "metadata", "labels"))


def test_the_sample_tunables_are_the_defaults() -> None:
    effective = TABLE.overridden(Settings(), Settings(), texts(SAMPLES["ConfigMap"], "data"))

    assert effective.rejections == ()
    assert effective.settings == Settings()


def test_the_priority_class_is_the_one_that_the_operand_names() -> None:
    assert dig(SAMPLES["PriorityClass"], "metadata", "name") == "btp-manager-kyma-priority"
    assert SAMPLES["PriorityClass"]["value"] == 2_100_000
