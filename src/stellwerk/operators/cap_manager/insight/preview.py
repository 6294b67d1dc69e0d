"""What the next pass on a CAPOperator would change, computed with the user's own rights; nothing is written."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from stellwerk.api.apps import Deployment
from stellwerk.api.coordination import Lease
from stellwerk.api.core import ConfigMap, Pod, Service
from stellwerk.apply.errors import ApplyError
from stellwerk.apply.objects import discover
from stellwerk.apply.set.model import inventory_codec
from stellwerk.delivery import deployed_process
from stellwerk.delivery.insight import Preview, PreviewFailed, PreviewRequest
from stellwerk.delivery.sets.cluster_identity import ClusterIdentity
from stellwerk.delivery.template_lookup import answer
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import Forbidden
from stellwerk.kube.types.model import dig, metadata_of, unstructured
from stellwerk.operators.cap_manager.api import LEASE_NAME, MANAGER, CAPOperator
from stellwerk.operators.cap_manager.capoperator import chart as charts
from stellwerk.operators.cap_manager.capoperator import plan, resources
from stellwerk.operators.cap_manager.capoperator.chart import Chart, UnusableChart
from stellwerk.operators.cap_manager.capoperator.installer import documents_of, request_of
from stellwerk.operators.cap_manager.capoperator.observe import Content, check_only, content_of
from stellwerk.operators.cap_manager.capoperator.plan import DnsTarget
from stellwerk.operators.cap_manager.errors import CapOperatorFailed
from stellwerk.operators.cap_manager.settings import TABLE, Settings
from stellwerk.operators.cap_manager.watches import ISTIO_SYSTEM, PODS_THAT_RUN, SHOOT_INFO
from stellwerk.render.errors import RenderError
from stellwerk.render.request.capabilities import facts_of


class CapOperatorPreviewer:
    """Computes what the manager would apply for a CAPOperator."""

    kind = CAPOperator
    accepts_image = True

    async def preview(self, subject: CAPOperator, request: PreviewRequest) -> Preview:
        """See `Previewer`. `--path` is the folder of the chart, `--image` the image of the pods."""
        chart = chart_of(await _settings_in_use(request.client), request.folder)
        try:
            known = (await request.client.list(CAPOperator)).items
            check_only(subject, [*(each for each in known if each.key != subject.key), subject])
            image = request.image or await _image_in_use(subject, request.client)
            content = await _content(subject, request.client, chart, image)
            status = plan.start_content(subject, content.digest)
            asked = request_of(subject, status, content, chart, await facts_of(request.client))
            rendered = await request.renderer.render(asked, partial(answer, request.client))
            documents = await documents_of(subject, rendered, request.client)
            terms = resources.terms(subject.key, await ClusterIdentity(request.client)())
            served = await discover.served(documents, request.client.mapper)
            members = terms.desired(documents, served, subject.status.processing_digest)
        except (CapOperatorFailed, RenderError, ApplyError) as error:
            raise PreviewFailed(str(error)) from None
        return Preview(
            field_manager=MANAGER,
            members=members,
            inventory=inventory_codec.read(subject.status.inventory),
            warnings=rendered.chart.warnings if rendered.chart is not None else (),
        )


def chart_of(settings: Settings, folder: Path | None) -> Chart:
    """The chart that the manager renders, as far as it can be read from here. Raises PreviewFailed.

    A folder of the manager's settings is one of its container: one of that name here is another one.
    """
    if folder is None and settings.manifest_directory != TABLE.defaults.manifest_directory:
        why = (
            f"the manager renders the chart of its folder {settings.manifest_directory}, which cannot be read from here"
        )
        raise PreviewFailed(why, fix="name a folder with the same chart with --path")
    try:
        return charts.load(folder, settings.chart_values)
    except UnusableChart as error:
        raise PreviewFailed(str(error), fix="name another folder with --path") from None


async def _settings_in_use(client: Client) -> Settings:
    """The settings of the manager that runs, found by its Lease; the defaults where they cannot be read."""
    try:
        for lease in (await client.list(metadata_of(Lease), fields=f"metadata.name={LEASE_NAME}")).items:
            for deployment in (await client.list(unstructured(Deployment.resource), lease.metadata.namespace)).items:
                for process in deployed_process.of_deployment(deployment):
                    if process.runs("cap-manager"):
                        return TABLE.of_process(process.words, process.variables)
    except Forbidden:
        pass
    return Settings()


async def _image_in_use(subject: CAPOperator, client: Client) -> str:
    """The image of a Deployment of the installation; empty where there is none yet. Raises ApiError."""
    for item in subject.status.inventory:
        if (item.group, item.kind) == (Deployment.resource.group, Deployment.resource.kind):
            found = await client.find(unstructured(Deployment.resource), item.name, item.namespace)
            containers = found.at("spec", "template", "spec", "containers") if found is not None else None
            if isinstance(containers, list) and containers:
                return str(dig(containers[0], "image") or "")
    return ""


async def _content(subject: CAPOperator, client: Client, chart: Chart, image: str) -> Content:
    """As a pass finds it, by single reads. Raises CapOperatorFailed, ApiError."""
    info = await client.find(ConfigMap, SHOOT_INFO.name, SHOOT_INFO.namespace)
    domain = info.data.get("domain", "").strip() if info is not None else ""
    selector = plan.gateway_selector(subject.spec)
    target = DnsTarget(plan.normalized(subject.spec.dns_target))
    if selector:
        pods = await client.list(metadata_of(Pod), labels=selector, fields=PODS_THAT_RUN)
        services = await client.list(Service, ISTIO_SYSTEM)
        target = plan.dns_target_of_gateway(pods.items, services.items, domain)
    return content_of(subject, chart, image, domain, target)


previewer = CapOperatorPreviewer()
