"""What a process of the lifecycle manager reads and checks before it begins."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from stellwerk.delivery.grants import lacking
from stellwerk.operators.kyma import labels, process, rights
from stellwerk.operators.kyma.installation import INSTALLATION, identity
from stellwerk.operators.kyma.module.windows import MOST_BYTES
from stellwerk.operators.kyma.settings import Settings

USABLE = Settings(without_registry=True, disable_watcher=True)


def test_a_policy_of_maintenance_windows_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    file.write_text('{"default": {"days": ["Sat"], "begin": "21:00:00+00:00", "end": "23:00:00+00:00"}}')

    found = process.read_policy(file)

    assert found is not None
    assert found.default is not None


@pytest.mark.parametrize(
    ("prepare", "level", "why"),
    [
        (lambda file: None, logging.INFO, "does not exist"),
        (lambda file: file.write_text("{"), logging.ERROR, "is no JSON"),
        (lambda file: file.write_text('{"rules": 1}'), logging.ERROR, "rules is no list"),
        (lambda file: file.write_bytes(b" " * (MOST_BYTES + 1)), logging.ERROR, "has more than"),
        (lambda file: file.mkdir(), logging.ERROR, "Is a directory"),
    ],
)
def test_a_policy_that_cannot_be_used_counts_as_none_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, prepare: Callable[[Path], object], level: int, why: str
) -> None:
    file = tmp_path / "policy.json"
    prepare(file)
    caplog.set_level(logging.INFO)

    assert process.read_policy(file) is None
    (record,) = caplog.records
    assert record.levelno == level
    assert why in record.getMessage()
    assert str(file) in record.getMessage()


def test_rights_are_asked_about_in_the_namespaces_of_the_settings() -> None:
    standard = identity(USABLE)
    other = identity(replace(USABLE, istio_namespace="mesh", istio_gateway_namespace="gateways"))

    assert standard.rights.needs == INSTALLATION.needs()
    assert standard.lease == "893110f7.kyma-project.io"
    assert standard.terms == USABLE.terms
    places = {(need.resource, need.namespace) for need in other.rights.needs}
    assert {place for _, place in places} == {"", labels.KCP_NAMESPACE, "mesh", "gateways"}
    assert {resource for resource, place in places if place == "gateways"} == {"gateways"}
    assert ("certificates", "mesh") in places


def test_nothing_but_definitions_and_questions_about_scrapers_is_allowed_in_the_whole_cluster() -> None:
    everywhere = {name for each in rights.GRANTS for name in each.rule.resources}

    assert everywhere == {
        *("customresourcedefinitions", "customresourcedefinitions/status"),
        *("tokenreviews", "subjectaccessreviews"),
    }
    secrets = [each.rule for each in rights.HOME_GRANTS if "secrets" in each.rule.resources]
    assert not lacking(secrets, [each.rule for each in rights.HOME_GRANTS])
    assert {verb for each in secrets for verb in each.verbs} == {"get", "list", "watch"}
    kymas = {verb for each in rights.HOME_GRANTS if "kymas" in each.rule.resources for verb in each.rule.verbs}
    assert kymas == {"get", "list", "watch", "patch"}, "as with the original, it neither creates nor deletes them"
