"""Publishes the Pages of a Site's remote cluster as ConfigMaps there, and keeps an index here."""

from __future__ import annotations

from stellwerk.api.core import ConfigMap, Secret
from stellwerk.delivery.grants import grant
from stellwerk.delivery.ready_steps import ReadyState, ReadyStatus, failed, keep, ready
from stellwerk.delivery.step_kind import StepKind
from stellwerk.delivery.step_rights import Use, kept
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, PartialObjectMetadata, metadata_of
from stellwerk.runtime.cache.remote_clusters import Kubeconfig
from stellwerk.runtime.control.step import Step
from stellwerk.runtime.insight.reason_catalog import Meaning
from stellwerk.runtime.reading.known import NotKnown, Present
from stellwerk.runtime.reading.loads import SecretData
from stellwerk.runtime.reading.questions import Collection, Index
from stellwerk.runtime.reading.view import View
from tests.toy_operator.api import Page, Reason, Settings, Site

SITES = Collection(Site)
PAGES = Collection(Page)
ALL_PAGES = Index(PAGES, "all", lambda _: ("",))
TEXTS = Collection(ConfigMap, labels="app.kubernetes.io/managed-by=toy")
LOGINS: Collection[PartialObjectMetadata] = Collection(metadata_of(Secret))


def decide(site: Site, view: View) -> Step[ReadyStatus]:
    if index := keep(view, TEXTS, site, {"data": {"title": site.spec.title}}):
        return Step(writes=index)
    key = ObjectKey(site.metadata.namespace, site.spec.secret_name)
    version = view.find(LOGINS, key, version_of)
    if version is None:
        cause = f"Secret {key} does not exist: kubectl create secret generic {key.name}"
        return failed(site, view, Reason.SecretMissing, cause)
    login = view.load(SecretData(key, version))
    if not isinstance(login, Present):
        raise NotKnown(f"the content of Secret {key}", "it is not loaded yet")
    remote = view.on(Kubeconfig(key, login.value.decoded()["value"]))
    greeting, pages = view.setting(Settings).greeting, remote.all(ALL_PAGES, "")
    texts = [keep(remote, TEXTS, page, {"data": {"text": f"{greeting} {page.spec.text}"}}) for page in pages]
    count = f"{len(pages)} pages"
    return ready(site, view, Reason.Published, count, writes=tuple(sum(texts, ())), pages=len(pages))


def version_of(secret: HasMetadata) -> str:
    return secret.metadata.resource_version


SITE = StepKind(
    name="toy",
    collection=SITES,
    decide=decide,
    uses=(kept(TEXTS, "no index is written"), Use(LOGINS, "no change of a login is seen")),
    remote_uses=(kept(TEXTS, "no page is published"), Use(PAGES, "no page is seen")),
    requests=(grant("", "secrets", "get", "no remote cluster is known"),),
    reasons={
        Reason.Published: Meaning(state=ReadyState.READY, meaning="All pages are published."),
        Reason.SecretMissing: Meaning(state=ReadyState.FAILED, meaning="No Secret.", fix=("Create the Secret.",)),
    },
)
