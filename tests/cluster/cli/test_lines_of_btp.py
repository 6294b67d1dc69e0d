"""`stellwerk tree` and `trace` know what belongs to the BtpOperator at work."""

from __future__ import annotations

from stellwerk.api.core import ConfigMap
from stellwerk.operators.btp import api
from tests.cluster.cli.conftest import Given, Stellwerk, parsed

LABELS = {api.MANAGED_BY_LABEL: api.OPERATOR_NAME, api.VERSION_LABEL: "1.2.3"}


def test_the_module_hangs_on_the_standard_resource_alone_and_leads_back_to_it(
    stellwerk: Stellwerk, given: Given, place: str
) -> None:
    space = api.STANDARD_NAMESPACE
    given.namespace(space)
    given.operator(space, api.STANDARD_NAME, "MissingSecret", "Warning", "no Secret")
    given.operator(place, "second", "OlderCRExists", "Warning", "another one is older")
    given.put(ConfigMap.resource, place, "part", metadata={"labels": LABELS})
    try:
        drawn = stellwerk("tree", f"btp/{api.STANDARD_NAME}", "-n", space)
        assert drawn.returncode == 0, drawn
        assert drawn.stdout.startswith(f"✗ BtpOperator {space}/{api.STANDARD_NAME}   Warning MissingSecret: no Secret")
        assert f"✔ ConfigMap {place}/part" in drawn.stdout
        assert len(stellwerk("tree", "btp/second", "-n", place).stdout.splitlines()) == 1

        up = stellwerk("trace", "configmap/part", "-n", place, "-o", "json")
        assert up.returncode == 0, up
        steps = parsed(up.stdout)["steps"]
        assert isinstance(steps, list)
        last = steps[-1]
        assert isinstance(last, dict)
        assert (last["relation"], last["origin"]) == ("managed by", {"Module": "btp-operator 1.2.3"})
    finally:
        given.gone(api.BtpOperator.resource, space, api.STANDARD_NAME)
        given.gone(api.BtpOperator.resource, place, "second")
