"""Publishes the Pages of a Site's remote cluster as ConfigMaps there, and keeps an index here."""

from __future__ import annotations

import base64

from stellwerk.api.core import ConfigMap, Secret
from stellwerk.delivery.children import KEEPER_LABEL, Children
from stellwerk.delivery.operator_spec import Launch
from stellwerk.delivery.simple_operator import Operator, ReadyStatus
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, unstructured
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.cache.remote_clusters import Kubeconfig
from stellwerk.runtime.process.process import Parts
from stellwerk.runtime.reconciler import Next, ReconcileError
from tests.toy_operator.api import Page, Reason, Site, SiteStatus
from tests.toy_operator.installation import INSTALLATION


class SecretMissing(ReconcileError):
    reason = Reason.SecretMissing


class Remote:
    """The caches of a remote cluster."""

    def __init__(self, operator: SiteOperator, cluster: Cluster) -> None:
        self.pages = cluster.informer(Page)
        texts = cluster.informer(unstructured(ConfigMap.resource), labels=f"{KEEPER_LABEL}=toy")
        self.texts = Children(cluster.client, texts, keeper="toy", clock=operator.clock)
        for informer in (self.pages, texts):
            informer.on_change(lambda _: operator.remotes.wake_users(cluster))


class SiteOperator(Operator[Site]):
    def __init__(self, parts: Parts, greeting: str) -> None:
        super().__init__(parts.manager, Site, owns=[ConfigMap], name="toy")
        self.greeting = greeting
        self.remotes = parts.remote_clusters(
            lambda cluster, _: Remote(self, cluster), field_manager="toy", wake=self.wake
        )
        self.install(parts.manager, recorder=parts.recorder)

    async def reconcile(self, site: Site) -> Next[ReadyStatus]:
        namespace, name = site.metadata.namespace, site.spec.secret_name
        secret = await self.client.find(Secret, name, namespace)
        if secret is None:
            raise SecretMissing(f"Secret {namespace}/{name} does not exist: kubectl create secret generic {name}")
        kubeconfig = base64.b64decode(secret.data["value"])
        remote = self.remotes.remote(site.key, Kubeconfig(ObjectKey(namespace, name), kubeconfig))
        await self.keep(ConfigMap, site, index(site))
        if not remote.pages.has_synced:
            return self.waiting(site, Reason.RemoteSyncing, "the caches of the remote cluster are not filled yet")
        pages = remote.pages.store.all()
        for page in pages:
            await remote.texts.keep(page, {"data": {"text": f"{self.greeting} {page.spec.text}"}})
        return self.ready(site, Reason.Published, f"{len(pages)} pages", showing=SiteStatus(pages=len(pages)))

    async def forget(self, key: ObjectKey) -> None:
        self.remotes.leave(key)


def index(site: Site) -> JsonObject:
    """The content of the index."""
    return {"data": {"title": site.spec.title}}


def launch(greeting: str) -> Launch:
    """Prepare a process."""
    return Launch(INSTALLATION.identity(), lambda parts: SiteOperator(parts, greeting))
