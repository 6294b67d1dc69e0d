"""`stellwerk reconcile`, `suspend`, `resume` and `wait` on a running operator."""

from __future__ import annotations

import asyncio

from tests.cluster.component.cli.conftest import Stellwerk, parsed
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import gate
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

from stellwerk.api import flux
from stellwerk.delivery.reconcile_request import FORCE_AT_ANNOTATION, REQUESTED_AT_ANNOTATION
from stellwerk.kube.types.model import metadata_of
from stellwerk.operators.component.api import Component


async def test_a_component_is_reconciled_on_request_with_its_source_and_waited_for(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    await given.source({"one.yaml": config_map("one")})
    await running.start()
    await given.component()
    await then.ready()

    tried = await stellwerk("reconcile", "comp/comp", "--dry-run")
    assert (tried.returncode, tried.stdout) == (
        0,
        f"Component {given.namespace}/comp is asked to reconcile (dry run)\n",
    )
    found = await given.client.get(Component, "comp", given.namespace)
    assert REQUESTED_AT_ANNOTATION not in found.metadata.annotations

    done = await stellwerk("reconcile", "comp/comp", "--with-source", "--wait")
    assert done.returncode == 0, done
    assert done.stdout.startswith(f"✔ Component {given.namespace}/comp is ready")
    assert f"GitRepository {given.namespace}/source is asked to reconcile" in done.stderr
    found = await given.client.get(Component, "comp", given.namespace)
    source = await given.client.get(metadata_of(flux.GitRepository), "source", given.namespace)
    asked = found.metadata.annotations[REQUESTED_AT_ANNOTATION]
    assert found.status.last_handled_reconcile_at == asked
    assert source.metadata.annotations[REQUESTED_AT_ANNOTATION] == asked


async def test_what_others_have_changed_is_no_success_of_a_reconcile_and_is_put_back_now_with_force(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    await given.source({"one.yaml": config_map("one"), "two.yaml": config_map("two")})
    await running.start()
    await given.component()
    await then.ready()
    await given.written_by("other", "one", a="changed")
    await then.event("DriftDetected", about="comp", saying="one")

    done = await stellwerk("reconcile", "comp/comp", "--wait")
    assert done.returncode == 0, done
    said = f"◌ Component {given.namespace}/comp is ready, and others have changed one of its objects"
    assert done.stdout.startswith(said)
    assert (
        done.stderr.splitlines()[-1]
        == f"Put it back now: stellwerk reconcile component/comp -n {given.namespace} --force"
    )
    assert (await then.config("one")).data == {"a": "changed"}

    done = await stellwerk("reconcile", "comp/comp", "--force", "--wait")
    assert done.returncode == 0, done
    assert done.stdout.startswith(f"✔ Component {given.namespace}/comp is ready")
    assert (await then.config("one")).data == {"a": "b"}
    found = await given.client.get(Component, "comp", given.namespace)
    assert (found.status.last_handled_force_at, found.status.drifted_objects) == (
        found.metadata.annotations[FORCE_AT_ANNOTATION],
        0,
    )

    await given.written_by("other", "two", a="changed")
    await then.event("DriftDetected", about="comp", saying="two")
    await running.rests()
    assert (await then.config("two")).data == {"a": "changed"}, "a forced request is acted on once"


async def test_a_reconcile_that_fails_ends_with_one_and_says_why(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    await given.source({"one.yaml": "apiVersion: v1\nkind: Nonsense\nmetadata:\n  name: x\n"})
    await running.start()
    await given.component()
    await then.shows("Error")
    done = await stellwerk("reconcile", "comp/comp", "--wait")
    assert done.returncode == 1, done
    assert done.stdout.startswith(f"✗ Component {given.namespace}/comp is not ready")
    assert "Nonsense" in done.stderr
    assert "<- root cause" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("Next: ")


async def test_a_suspension_and_its_reason_are_shown_wherever_the_state_is(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    await given.source({"one.yaml": config_map("one")}, revision="r1")
    await running.start()
    await given.component()
    await then.ready()

    tried = await stellwerk("suspend", "comp/comp", "--reason", "x", "--dry-run")
    assert tried.returncode == 0
    assert not (await given.client.get(Component, "comp", given.namespace)).spec.suspend

    done = await stellwerk("suspend", "comp/comp", "--reason", "change freeze")
    assert (done.returncode, done.stdout) == (0, f"Component {given.namespace}/comp is suspended\n")
    await then.shows("Pending", "Suspended", saying="change freeze")
    listed = (await stellwerk("get", "comp")).stdout.splitlines()
    assert '"change freeze"' in listed[1]
    assert "Suspended" in listed[1]
    shown = (await stellwerk("status", "comp/comp")).stdout
    assert shown.splitlines()[0].startswith(f"⏸ Component {given.namespace}/comp is suspended")
    assert "Reason:   change freeze" in shown

    await given.source({"one.yaml": config_map("one", a="new")}, revision="r2")
    await running.settled(given.client)
    assert (await then.config("one")).data == {"a": "b"}

    done = await stellwerk("resume", "comp/comp")
    assert (done.returncode, done.stdout) == (0, f"Component {given.namespace}/comp is resumed\n")
    await then.ready(revision="r2")
    shown = (await stellwerk("status", "comp/comp")).stdout
    assert "change freeze" not in shown.partition("Events:")[0]


async def test_waiting_ends_when_the_component_is_ready_or_gone(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    await given.source({"gate.yaml": gate("g")})
    await running.start()
    await given.component()
    await then.shows("Processing", "Processing", saying=f"Gate {given.namespace}/g")
    late = await stellwerk("wait", "comp/comp", "--timeout", "500ms")
    assert late.returncode == 4, late
    error, cause, fix, details, subject = late.stderr.splitlines()[-5:]
    assert error == f"Error:   Component {given.namespace}/comp is not ready after 0.5 s"
    assert cause.startswith("Cause:   ")
    assert f"Gate {given.namespace}/g" in cause, "the root cause, as why reports it"
    explained = (await stellwerk("why", "comp/comp")).stdout.splitlines()
    assert fix.removeprefix("Fix:     ") == explained[-1].removeprefix("Next: "), "the next step, as why reports it"
    assert details.strip() == f"details: stellwerk why component/comp -n {given.namespace}"
    assert subject == f"Object:  Component {given.namespace}/comp"

    waiting = asyncio.create_task(stellwerk("wait", "comp/comp", "--timeout", "40s"))
    await given.opened("g")
    done = await waiting
    assert done.returncode == 0, done
    assert done.stdout.startswith(f"✔ Component {given.namespace}/comp is ready")

    waiting = asyncio.create_task(stellwerk("wait", "comp/comp", "--for", "deleted", "--timeout", "40s"))
    await given.deleted()
    done = await waiting
    assert (done.returncode, done.stdout.strip().endswith(" is gone")) == (0, True), done
    again = await stellwerk("wait", "comp/comp", "--for=deleted")
    assert again.returncode == 0, again
    assert (await stellwerk("wait", "comp/comp")).returncode == 1


async def test_all_components_are_suspended_and_resumed_and_waited_for(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    await given.source({"one.yaml": config_map("one")})
    await given.source({"two.yaml": config_map("two")}, "second")
    await running.start()
    await given.component("one")
    await given.component("two", "second")
    await then.ready("one")
    await then.ready("two")
    await given.labelled("two", tier="back")

    done = await stellwerk("suspend", "comp", "--all", "--reason", "freeze")
    named = [f"Component {given.namespace}/{name} is suspended" for name in ("one", "two")]
    assert (done.returncode, done.stdout.splitlines()) == (0, named)
    await then.shows("Pending", "Suspended", "two")

    refused = await stellwerk("reconcile", "comp/two", "--wait")
    assert refused.returncode == 1, refused
    assert f"Error:   Component {given.namespace}/two is suspended" in refused.stderr
    assert f"Fix:     resume it: stellwerk resume component/two -n {given.namespace}" in refused.stderr
    found = await given.client.get(Component, "two", given.namespace)
    assert REQUESTED_AT_ANNOTATION not in found.metadata.annotations, "nothing is asked for in vain"

    done = await stellwerk("resume", "comp", "-l", "tier=back", "--wait")
    assert done.returncode == 0, done
    assert done.stdout.startswith(f"✔ Component {given.namespace}/two is ready")
    assert (await given.client.get(Component, "one", given.namespace)).spec.suspend
    assert f"Component {given.namespace}/two is resumed" in done.stderr


async def test_what_an_operator_knows_nothing_of_is_wrong_usage(given: Given, stellwerk: Stellwerk) -> None:
    await given.config("plain", a="b")
    for verb in ("reconcile", "suspend", "resume"):
        done = await stellwerk(verb, "configmap/plain")
        assert done.returncode == 2, done
        _, _, able = done.stderr.partition("Fix:     of our kinds this can be done with: ")
        assert "comp" in able.splitlines()[0].split(", ")


async def test_an_action_without_the_right_ends_with_five(given: Given, stellwerk: Stellwerk) -> None:
    await given.component()
    done = await stellwerk("suspend", "comp/comp", "--as", "nobody")
    assert done.returncode == 5, done
    assert parsed((await stellwerk("get", "comp/comp", "-o", "json")).stdout)["spec"]
