"""A name from outside never leads a request to another object, a subresource or a collection."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stellwerk.api.apps import Deployment
from stellwerk.api.core import ConfigMap, Namespace
from stellwerk.api.rbac import ClusterRole
from stellwerk.delivery.template_lookup import answer
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import InvalidName
from stellwerk.kube.types.identifiers import segment_complaint
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.render.request.request import Missing, TemplateQuery

HOSTILE = (
    "x/scale",
    "x%2Fscale",
    "x%252Fscale",
    "..",
    ".",
    "../../namespaces/kube-system",
    "web:http/proxy/path",
    "",
    "a\nb",
    "a\x00",
    "\ud800",
    "x" * 5_000,
)


@pytest.mark.req("R-509")
@pytest.mark.parametrize("name", HOSTILE)
async def test_names_that_are_no_segment_of_a_path_are_refused_before_anything_is_sent(
    client: Client, namespace: str, name: str
) -> None:
    for call in (
        client.get(ConfigMap, name, namespace),
        client.find(ConfigMap, name, namespace),
        client.delete(metadata_of(ConfigMap), name, namespace, dry_run=True),
        client.get(Deployment, name, namespace, subresource="scale"),
    ):
        with pytest.raises(InvalidName, match=r"name .* must not"):
            await call
    with pytest.raises(InvalidName):
        await answer(client, TemplateQuery("v1", "ConfigMap", namespace, name))
    if name:
        for query in (TemplateQuery("v1", "ConfigMap", name, "x"), TemplateQuery("v1", "ConfigMap", name, many=True)):
            with pytest.raises(InvalidName, match=r"namespace .* must not"):
                await answer(client, query)


@pytest.mark.req("R-509")
@pytest.mark.parametrize("name", ["x?watch=1", "x#y", "x&limit=1", "a b", "ü", "a:b", "kube-root-ca.crt;p=1"])
async def test_characters_that_mean_something_in_a_url_are_part_of_the_name(
    client: Client, namespace: str, name: str
) -> None:
    assert await answer(client, TemplateQuery("v1", "ConfigMap", namespace, name)) is Missing.OBJECT
    role: JsonObject = {"metadata": {"name": f"{namespace}:{name}"}}
    assert (await client.create(ClusterRole, role)).metadata.name == f"{namespace}:{name}"
    assert await client.delete(metadata_of(ClusterRole), f"{namespace}:{name}")


@pytest.mark.req("R-509")
async def test_words_that_are_no_kind_are_answered_as_one_that_is_not_served(client: Client, namespace: str) -> None:
    for api_version, kind in (("../v1", "ConfigMap"), ("v1/namespaces/x", "ConfigMap"), ("v1", "../x"), ("", "")):
        assert await answer(client, TemplateQuery(api_version, kind, namespace, "x")) is Missing.KIND
    assert await answer(client, TemplateQuery("v1", "Namespace", "", namespace)) is not Missing.OBJECT
    assert (await client.get(Namespace, namespace)).metadata.name == namespace


@given(st.text(max_size=40))
@settings(max_examples=300)
def test_what_is_accepted_has_no_separator_and_is_no_relative_step(name: str) -> None:
    if not segment_complaint(name):
        assert name
        assert name not in (".", "..")
        assert not {"/", "%", "\n", "\0"} & set(name)
