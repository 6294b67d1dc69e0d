"""A word of a Secret is shown by no status, no Event and no log line, wherever a template or a server puts it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import msgspec
import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.api.events import Event
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.component.api import Component
from stellwerk.runtime.telemetry import logs
from stellwerk.testing.eventually import eventually
from stellwerk.testing.servers import artifacts
from tests.cluster.component import test_decryption
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config, manifest, policies
from tests.cluster.component.process import operator
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

CANARY = 'canary-Value_"1"\\!'
PLAIN = "canary-of-a-name"
CHART = "apiVersion: v2\nname: chart\nversion: 1.0.0\n"
WORDS = {"token": CANARY, "plain": PLAIN}

REFUSED = {
    "policy": config("one", update_policy="{{ .plain }}"),
    "order": config("one", apply_order="{{ .plain }}"),
    "condition": config("one", status_hint="{{ .plain }}"),
    "name": manifest("ConfigMap", "UPPER-{{ .plain }}"),
    "namespace": manifest("ConfigMap", "one", namespace="UPPER-{{ .plain }}"),
    "kind": manifest("Kind-{{ .plain }}", "one"),
    "version": manifest("ConfigMap", "one", api_version="{{ .plain }}/v1"),
    "label": manifest("ConfigMap", "one", labels={"a": "{{ .plain }} !"}),
    "labels": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\n  labels:\n    a: {{ .token | quote }}\n",
    "value": manifest("Service", "one", {"spec": {"type": "{{ .plain }}", "ports": [{"port": 80}]}}),
    "type": "apiVersion: v1\nkind: Service\nmetadata:\n  name: one\nspec:\n  ports:\n  - port: {{ .token | quote }}\n",
    "base64": manifest("ConfigMap", "one", labels={"a": "{{ .plain | b64enc }}"}),
    "fail": "{{ fail .token }}",
    "number": "{{ .token | int | add 1 | required (print .plain) | fromYaml | get 1 }}",
    "url": manifest("ConfigMap", "{{ .token | urlquery }}"),
}


def with_component_config(content: str) -> dict[str, str]:
    return {"object.yaml": content, ".component-config.yaml": "{}\n"}


async def events(given: Given) -> list[str]:
    """The texts of all Events of the namespace."""
    found = (await given.client.list(Event, given.namespace)).items
    return [f"{one.reason} {one.note} {one.metadata.annotations}" for one in found]


async def has_events(given: Given, count: int) -> bool:
    """Whether so many Events about failures have been written."""
    return sum(note.startswith("Error ") for note in await events(given)) >= count


@pytest.mark.req("R-804")
async def test_no_word_of_a_secret_is_shown_wherever_a_template_puts_it(
    component_cluster: LocalCluster, given: Given, then: Then, tmp_path: Path
) -> None:
    flood = {f"w{number}": f"word-{number}-of-many" for number in range(3_000)}
    await given.secret("values", values=json.dumps(WORDS))
    await given.secret("flood", values=json.dumps(flood))
    async with operator(component_cluster, tmp_path, "--zap-log-level=debug") as started:
        for name, content in REFUSED.items():
            await given.source(with_component_config(content), name)
            await given.component(name, name, valuesFrom=[{"name": "values"}, {"name": "flood"}])
        await started.process.start()
        for name in REFUSED:
            await then.shows("Error", name=name)
        await eventually(lambda: len(then.history.latest) == len(REFUSED), describe="all Components are known")
        told = {name: msgspec.json.encode(then.history.latest[name].status).decode() for name in REFUSED}
        await eventually(lambda: has_events(given, len(REFUSED)), describe="the Events are written")
        noted = await events(given)
    log = (tmp_path / "operator.log").read_text()
    assert len(noted) >= len(REFUSED)
    for text in (*told.values(), *noted, log):
        assert not shown_of(text), text[:2_000]
    assert sum("***" in text for text in told.values()) >= 10


def shown_of(text: str) -> list[str]:
    """Which forms of the canaries stand in a text."""
    forms = [f"{word[:10]}" for word in WORDS.values()]
    forms += [base64.b64encode(word.encode()).decode()[:16] for word in WORDS.values()]
    return [form for form in forms if form.lower() in text.lower()]


@pytest.mark.req("R-804")
@pytest.mark.parametrize("packed", [False, True], ids=["open", "packed"])
@pytest.mark.parametrize("place", ["kind", "name", "version"])
async def test_a_decrypted_word_is_masked_where_a_template_puts_it_into_no_secret(
    given: Given, running: Running, then: Then, place: str, packed: bool
) -> None:
    word = "{{ .Values.password }}"
    templates = {
        "kind": manifest(f"Kind-{word}", "one"),
        "name": manifest("ConfigMap", f"UPPER-{word}"),
        "version": manifest("ConfigMap", "one", api_version=f"{word}/v1"),
    }
    files = {
        "Chart.yaml": CHART,
        "values.yaml": test_decryption.text("values.age.yaml"),
        "templates/one.yaml": templates[place],
    }
    inner = {f"inner/{name}": text for name, text in files.items()}
    await given.source({"Chart.yaml": CHART, "charts/inner.tgz": artifacts.packed(inner)} if packed else files)
    await shows_no_decrypted_word(given, running, then)


@pytest.mark.req("R-801", "R-804")
@pytest.mark.parametrize("encrypted", ["documents", "binary"])
async def test_a_word_of_a_later_document_or_of_a_file_encrypted_as_binary_is_masked(
    given: Given, running: Running, then: Then, encrypted: str
) -> None:
    word = '{{ (.Files.Get "config.json" | fromJson).auths.registry.password }}'
    sources = {
        "documents": {"objects.yaml": test_decryption.text("documents.age.yaml")},
        "binary": {
            "Chart.yaml": CHART,
            "config.json": test_decryption.text("binary.age.json"),
            "templates/one.yaml": f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: UPPER-{word}\n",
        },
    }
    await given.source(sources[encrypted])
    await shows_no_decrypted_word(given, running, then)


async def shows_no_decrypted_word(given: Given, running: Running, then: Then) -> None:
    """The Component of the source is refused, with a mask in the place of each canary."""
    await given.secret("keys", **{"a.agekey": test_decryption.text("tests.agekey")})
    await running.start()
    await given.component(decryption={"provider": "sops", "secretRef": {"name": "keys"}})

    refused = await then.shows("Error", saying="***")

    await eventually(lambda: has_events(given, 1), describe="the Event is written")
    told = [msgspec.json.encode(refused.status).decode(), *await events(given)]
    assert not any("canary" in one for one in told), told


@pytest.mark.req("R-804")
async def test_an_object_that_is_named_by_a_secret_is_deleted_without_its_name(
    given: Given, running: Running, then: Then
) -> None:
    """A deletion reads no values, and the process that deletes need not be the one that applied."""
    await given.secret("values", values=json.dumps(WORDS))
    await given.source(with_component_config(manifest("ConfigMap", "{{ .plain }}")))
    await given.component(valuesFrom=[{"name": "values"}])
    await running.start()
    await then.ready()
    await running.stop()
    held = MergePatch({"metadata": {"finalizers": ["tests.example.com/waits"]}})
    await given.client.patch(metadata_of(ConfigMap), PLAIN, given.namespace, held)
    await given.deleted()
    await running.start()
    leaving = await then.shows("Deleting", "DeletionProcessing", saying="***")
    assert "waits for finalizers tests.example.com/waits" in leaving.status.conditions[0].message
    assert not any(shown_of(condition.message) for condition in leaving.status.conditions)
    free = MergePatch({"metadata": {"finalizers": None}})
    await given.client.patch(metadata_of(ConfigMap), PLAIN, given.namespace, free)
    await then.gone()
    assert not any(shown_of(text) for text in await events(given))


@pytest.mark.req("R-804")
async def test_the_words_of_a_secret_that_a_template_looks_up_are_masked_in_log_lines(
    given: Given, running: Running, then: Then
) -> None:
    word = f"word-of-{given.namespace}"
    await given.secret("asked", word=word)
    lookup = "{{ (lookup `v1` `Secret` .Release.Namespace `asked`).data.word | b64dec }}"
    await given.source({"Chart.yaml": CHART, "templates/one.yaml": config("one", lookup)})
    await given.component()
    await running.start()
    await then.ready()
    assert logs.redacted(f"about {word}, and {base64.b64encode(word.encode()).decode()}") == "about ***, and ***"


@pytest.mark.req("R-804")
async def test_an_object_that_is_named_by_a_secret_is_waited_for_without_its_name(
    component_cluster: LocalCluster, given: Given, then: Then, tmp_path: Path
) -> None:
    gate = manifest("Gate", "{{ .plain }}", {"spec": {}}, api_version="test.example.com/v1", annotations=policies())
    await given.secret("values", values=json.dumps(WORDS))
    await given.source(with_component_config(gate))
    async with operator(component_cluster, tmp_path, "--zap-log-level=debug") as started:
        await given.component(valuesFrom=[{"name": "values"}])
        await started.process.start()
        waiting = await then.shows("Processing", saying="***")
        assert not any(shown_of(condition.message) for condition in waiting.status.conditions)
        await given.opened(PLAIN)
        await then.ready()
        assert not any(shown_of(text) for text in await events(given))
        await given.client.delete(Component, "comp", given.namespace)
        await then.gone()
    log = (tmp_path / "operator.log").read_text()
    assert "***" in log
    assert not shown_of(log)
