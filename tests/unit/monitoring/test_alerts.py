"""Each alert fires when it should and not before, and has a section in the runbook."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.prometheus import program

from stellwerk.assembly import OPERATORS
from stellwerk.delivery.monitoring import objects

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy" / "monitoring" / "rules.yaml"
CASES = Path(__file__).parent / "cases.yaml"
RUNBOOK = (ROOT / objects.RUNBOOK).read_text()


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def cases() -> list[dict[str, Any]]:
    tests = yaml.safe_load(CASES.read_text())["tests"]
    return [case for test in tests for case in test["alert_rule_test"]]


def test_promtool_accepts_the_rules_and_each_case_is_as_expected(tmp_path: Path) -> None:
    file = tmp_path / "cases.yaml"
    file.write_text(CASES.read_text().replace("[RULES]", f"[{RULES}]"))
    for command in (["check", "rules", str(RULES)], ["test", "rules", str(file)]):
        done = subprocess.run([program("promtool"), *command], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", sorted({rule["alert"] for rule in rules()}))
def test_an_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not(name: str) -> None:
    results = {bool(case["exp_alerts"]) for case in cases() if case["alertname"] == name}
    assert results == {True, False}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_the_runbook_has_a_section_for_an_alert(rule: dict[str, Any]) -> None:
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert (ROOT / page).is_file()
    assert anchor in {heading.lower() for heading in re.findall(r"^## (\w+)$", RUNBOOK, re.MULTILINE)}
    section = RUNBOOK.split(f"## {rule['alert']}\n")[1].split("\n## ")[0]
    for part in ("Causes:", "How to check:", "How to fix:", "```promql\n", f"\n{rule['expr']}\n"):
        assert part in section


def test_the_prometheus_rule_has_the_same_groups() -> None:
    body = yaml.safe_load((ROOT / "deploy" / "monitoring" / "prometheusrule.yaml").read_text())
    assert (body["apiVersion"], body["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert body["spec"] == yaml.safe_load(RULES.read_text())


def test_an_operator_that_does_not_elect_a_leader_has_no_alert_about_it() -> None:
    operator = OPERATORS["btp"]
    names = {alert.name for alert in objects.alerts_of(operator)}
    assert names - {alert.name for alert in objects.alerts_of(operator, leader_elect=False)} == {"StellwerkNoLeader"}


def test_a_chart_can_name_the_address_of_the_runbook() -> None:
    (group,) = objects.of_operator(OPERATORS["btp"], runbook_url="https://docs.example.com/alerts").groups
    assert "https://docs.example.com/alerts#stellwerknoleader" in str(group)
