"""`stellwerk why` leads from a Component down to what keeps it from being ready, and says what to do."""

from __future__ import annotations

from tests.cluster.component.cli.conftest import Stellwerk
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import deployment, gate, job
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then
from tests.cluster.program import Ended

from stellwerk.testing.eventually import eventually

ONE = {"one.yaml": config_map("one")}


def lines(text: str) -> list[str]:
    """What is said, without the branches of the tree and the blanks of its columns."""
    return [" ".join(line.strip(" │├└─").split()) for line in text.splitlines()]


def roots(text: str) -> list[str]:
    return [line.removesuffix(" <- root cause") for line in lines(text) if line.endswith("<- root cause")]


async def test_why_goes_through_a_dependency_and_its_deployment_down_to_the_image(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    await given.source({"db.yaml": deployment("postgres", fate="pull-error")}, "database")
    await given.source(ONE)
    await given.component("database", "database")
    await given.component("front", dependencies=[{"name": "database"}])
    await running.start()
    await then.shows("Processing", "Processing", "database", saying="postgres")
    await then.shows("Pending", "Retrying", "front")

    async def goes_to_the_image() -> Ended:
        told = await stellwerk("why", "comp/front")
        assert "ErrImagePull" in told.stdout, told
        return told

    told = await eventually(goes_to_the_image, describe="the pod has said what it lacks")
    said = lines(told.stdout)
    assert said[0].startswith(f"◌ Component {then.namespace}/front is not known to be ready (for ")
    assert f"waits for Component {then.namespace}/database: Processing" in said
    assert f"Deployment {then.namespace}/postgres: 0 of 1 replicas available" in said
    (root,) = roots(told.stdout)
    assert root.startswith(f"Pod {then.namespace}/postgres-")
    assert root.endswith(": image example.com/main:1 cannot be pulled ErrImagePull")
    assert said[-1] == "Next: check the image's name, and the pull secret if the registry asks for one"


async def test_why_names_a_dependency_that_nobody_has_made_and_how_to_go_on(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    await given.source(ONE)
    await given.component("front", dependencies=[{"name": "warehouse"}])
    await running.start()
    await then.shows("Pending", "Retrying", "front")
    told = await stellwerk("why", "comp/front")
    assert roots(told.stdout) == [f"Component {then.namespace}/warehouse does not exist NotFound"]
    assert lines(told.stdout)[-1].startswith(f"Next: create Component {then.namespace}/warehouse, or take it out of")


async def test_why_passes_on_what_a_source_says(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    await given.source(ONE, ready=False)
    await given.component()
    await running.start()
    await then.shows("Pending", "Retrying", saying="cannot clone")
    told = await stellwerk("why", "comp/comp")
    assert roots(told.stdout) == [f"GitRepository {then.namespace}/source: cannot clone Failed"]


async def test_why_names_each_object_that_is_waited_for(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    await given.source({"job.yaml": job("migrate", fate="fail"), "gate.yaml": gate("closed"), **ONE})
    await given.component()
    await running.start()
    await then.shows("Processing", "Processing", saying="migrate: Failed")
    told = await stellwerk("why", "comp/comp")
    said = "\n".join(roots(told.stdout))
    assert f"Job {then.namespace}/migrate: " in said
    assert f"Gate {then.namespace}/closed: " in said
    assert "one" not in said


async def test_why_tells_of_a_file_that_cannot_be_rendered(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    await given.source({"app.yaml": "a: {{ .missing | required }}\n"})
    await given.component()
    await running.start()
    await then.shows("Error", "Error")
    told = await stellwerk("why", "comp/comp")
    assert "app.yaml" in told.stdout
    assert "RenderingFailed" in told.stdout
    assert lines(told.stdout)[-1].startswith("Next: ")


async def test_why_has_nothing_to_say_of_a_component_that_is_ready(
    given: Given, running: Running, then: Then, stellwerk: Stellwerk
) -> None:
    await given.source(ONE)
    await given.component()
    await running.start()
    await then.ready()
    told = await stellwerk("why", "comp/comp")
    assert told.returncode == 0, told
    assert f"Component {then.namespace}/comp is ready" in told.stdout
