"""What a BtpOperator comes to, worked out for a person: without the operator, and with the person's own rights.

The pure steps are the operator's own; only the reading differs, because a person asks once and has no caches. Two
things are known to the operator's process alone. Its flags: the defaults stand for them, under the tunables ConfigMap.
The operand's image: the running one replaces it, or else the manifest's, unless the person names another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from stellwerk.api.apps import Deployment
from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.api.core import ConfigMap, Secret
from stellwerk.apply.errors import ApplyError
from stellwerk.apply.objects import discover
from stellwerk.apply.objects.desired import Address, Desired, Document, desired_set, kinds_of
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.delivery.insight import Preview, PreviewFailed, PreviewRequest
from stellwerk.kube.client.client import Client
from stellwerk.kube.concurrency import together
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef, Resource
from stellwerk.kube.types.model import Unstructured, metadata_of, unstructured
from stellwerk.operators.btp import api
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.btpoperator import certificates, history, plan, resources
from stellwerk.operators.btp.btpoperator.resources import Running, Values
from stellwerk.operators.btp.credentials import credentials
from stellwerk.operators.btp.credentials.credentials import BtpCredentials, CredentialsComparison
from stellwerk.operators.btp.errors import DamagedRecord, ModuleUnreadable, SecretUnusable, StepFailed
from stellwerk.operators.btp.module import rehearsal, version_record
from stellwerk.operators.btp.module.chart import ReleaseSupplier
from stellwerk.operators.btp.module.release import CHART_FILE, SHIPPED, ModuleRelease, in_force
from stellwerk.operators.btp.module.version_record import VersionRecord
from stellwerk.operators.btp.settings import TABLE, CrSelection, ModuleSource, Settings
from stellwerk.operators.btp.watches import MODULE_KINDS
from stellwerk.render.worker.renderer import Renderer
from stellwerk.runtime.certificates import certs

_PLACES = ("ChartPath", "ManagerResourcesPath", "ResourcesPath")
"""Tunables that name folders of the operator's machine."""
_DEPLOYMENTS = unstructured(Deployment.resource)
_NOT_MADE_YET = certs.KeyPair(b"", b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class BtpPreviewInput:
    """What a person has at hand. The module is the one that comes with us, where no `folder` is named."""

    client: Client
    renderer: Renderer
    folder: Path | None = None
    """A module laid out as in the operator's image, or a chart."""
    image: str = ""
    """The operand's."""

    async def preview(self, operator: BtpOperator) -> Preview:
        """Work it out for a CR that is in the cluster, or is not yet. Nothing is written.

        Raises PreviewFailed, StepFailed with what the CR would show, InvalidSet, and ApiError.
        """
        settings = await self._settings()
        await self._check_leads(operator, settings)
        wanted = await self._credentials(settings)
        release = await ReleaseSupplier(lambda: settings, self.renderer, self.client).current(operator, wanted)
        record = await self._record(settings, needed=release.from_chart)
        after = version_record.after_apply(record, release.version, release.kinds)
        module = await self._module(after, settings.chart_namespace)
        authority = certificates.authority_in(await self._secret(api.CA_SECRET_NAME, settings.chart_namespace))
        webhook = certificates.webhook_in(await self._secret(api.WEBHOOK_SECRET_NAME, settings.chart_namespace))
        operand = await self.client.find(_DEPLOYMENTS, settings.deployment_name, settings.chart_namespace)
        config = await self.client.find(ConfigMap, api.OPERAND_CONFIG_NAME, settings.chart_namespace)
        values = Values(
            settings=settings,
            credentials=wanted,
            image=self.image or _image(release, operand),
            network_policies=plan.network_policies_wanted(operator, settings.home_namespace),
            ca_bundle=(authority or _NOT_MADE_YET).certificate,
            running=await self._running(operand, config, wanted),
        )
        documents = (
            *resources.prepared(release, values),
            *certificates.documents_of(authority or _NOT_MADE_YET, webhook or _NOT_MADE_YET, settings.chart_namespace),
            Document(version_record.config_map(after, settings.chart_namespace)),
        )
        served = await discover.served(documents, self.client.mapper)
        desired = desired_set(documents, served, namespace=settings.chart_namespace)
        return Preview(
            field_manager=api.OPERATOR_NAME,
            objects=desired,
            renewed=_renewed(authority, webhook, settings),
            deleted={
                **await self._outdated(release, settings, wanted.namespace),
                **await self._stale(module, desired, release.version),
                **_opted_out(module, settings, values.network_policies),
                **await self._former_credentials(wanted, config, record),
            },
        )

    # ---- what decides

    async def _settings(self) -> Settings:
        base = self._base()
        found = await self.client.find(ConfigMap, base.config_name, base.chart_namespace)
        if found is None:
            return base
        data = {key: value for key, value in found.data.items() if key not in _PLACES}
        settings = TABLE.overridden(base, base, data).settings
        # A folder that the user names is used as it is, whatever the operator's own is.
        return settings if self.folder is None else replace(settings, module_source=base.module_source)

    def _base(self) -> Settings:
        if self.folder is None:
            return in_force(Settings(), SHIPPED)
        if (self.folder / CHART_FILE).is_file():
            found = in_force(Settings(module_source=ModuleSource.CHART), self.folder)
            return replace(found, chart_path=str(self.folder))
        here = Settings()
        for source, path in ((ModuleSource.RESOURCES, here.resources_path), (ModuleSource.CHART, here.chart_path)):
            if (self.folder / path).is_dir():
                return in_force(Settings(module_source=source), self.folder)
        raise ModuleUnreadable(f"{self.folder}: holds neither {here.resources_path}, {here.chart_path} nor a chart")

    async def _check_leads(self, operator: BtpOperator, settings: Settings) -> None:
        if operator.metadata.is_terminating:
            raise _nothing_to_do(operator, "it is being deleted")
        fixed = settings.cr_selection is CrSelection.FIXED
        present = [*(await self.client.list(BtpOperator)).items]
        leader = plan.leader(present, fixed=fixed) or plan.leader([operator], fixed=fixed)
        if leader is None:
            raise _nothing_to_do(operator, f"the module belongs to BtpOperator {api.STANDARD_KEY} alone")
        if leader.key != operator.key:
            raise _nothing_to_do(operator, f"the module belongs to {leader.ref}, which was there before")

    async def _credentials(self, settings: Settings) -> BtpCredentials:
        key = ObjectKey(settings.chart_namespace, settings.secret_name)
        secret = await self._secret(key.name, key.namespace)
        if secret is None or not credentials.is_for_us(secret.metadata.labels):
            raise SecretUnusable(credentials.missing(key))
        found = credentials.read(secret.data, secret.metadata.annotations, default_namespace=key.namespace)
        if not isinstance(found, BtpCredentials):
            raise SecretUnusable(found)
        return found

    async def _record(self, settings: Settings, *, needed: bool) -> VersionRecord | None:
        found = await self.client.find(ConfigMap, api.VERSIONS_NAME, settings.chart_namespace)
        try:
            return version_record.parse(found.data) if found is not None else None
        except DamagedRecord:
            if needed:
                raise
            return None  # as the operator does

    # ---- what is there

    async def _running(
        self, operand: Unstructured | None, config: ConfigMap | None, wanted: BtpCredentials
    ) -> Running | None:
        if operand is None:
            return None
        secret = await self._secret(api.OPERAND_SECRET_NAME, wanted.namespace)
        return Running.of(operand.body, config.data if config else {}, secret.data if secret else {})

    async def _secret(self, name: str, namespace: str) -> Secret | None:
        return await self.client.find(Secret, name, namespace)

    async def _module(self, record: VersionRecord, chart_namespace: str) -> dict[Address, Live]:
        """Everything of the module that carries our label, of every kind that any version had; as metadata."""
        usual = [kind.resource for kind in (*MODULE_KINDS, Secret)]
        served = await history.served(self.client, {*record.kinds} - {resource.gvk for resource in usual})

        async def listed(resource: Resource) -> dict[Address, Live]:
            place = chart_namespace if resource.namespaced else ""
            found = await self.client.list(metadata_of(resource), place, labels=api.MANAGED_SELECTOR)
            return {Address(resource, item.key): item for item in found.items}

        found = await together([*usual, *served.values()], listed)
        return {address: live for listed in found for address, live in listed.items()}

    # ---- what goes

    async def _outdated(
        self, release: ModuleRelease, settings: Settings, credentials_namespace: str
    ) -> dict[ObjectRef, str]:
        documents = resources.to_delete(release, settings)
        served = await discover.served(documents, self.client.mapper)
        here = [document for document in documents if served.keys() >= {*kinds_of([document])}]
        listed = [one.address for one in desired_set(here, served, namespace=settings.chart_namespace)]
        addresses = [
            each for each in listed if not resources.is_applied(each, release, settings, credentials_namespace)
        ]
        if any(address.ref in version_record.USERS_DEFINITIONS for address in addresses):
            spared = version_record.spared(has_users_objects=await self._has_users_objects())
            addresses = [address for address in addresses if address.ref not in spared]
        there = await together(addresses, self._is_there)
        found = zip(addresses, there, strict=True)
        return {address.ref: "an older version had it" for address, is_there in found if is_there}

    async def _is_there(self, address: Address) -> bool:
        found = await self.client.find(metadata_of(address.resource), address.key.name, address.key.namespace)
        return found is not None and not found.metadata.is_terminating

    async def _stale(
        self, module: Mapping[Address, Live], desired: Iterable[Desired], version: str
    ) -> dict[ObjectRef, str]:
        stale = version_record.stale(
            module,
            [one.address for one in desired],
            version,
            spared=version_record.spared(has_users_objects=await self._has_users_objects()),
        )
        return {one.ref: f"version {version} does not have it" for one in stale}

    async def _has_users_objects(self) -> bool:
        served = await history.served(self.client, [kind.resource.gvk for kind in (ServiceInstance, ServiceBinding)])
        for resource in served.values():
            async with aclosing(self.client.pages(metadata_of(resource), limit=1)) as pages:
                if (await anext(pages)).items:
                    return True
        return False

    async def _former_credentials(
        self, wanted: BtpCredentials, config: ConfigMap | None, record: VersionRecord | None
    ) -> dict[ObjectRef, str]:
        recorded, moves = (record.credentials, record.moves) if record is not None else (None, ())
        data = config.data if config is not None else {}
        former = (recorded.namespace,) if recorded is not None else ()
        places = credentials.possible_namespaces(wanted, data, (*former, *moves))
        there = [await self.client.find(metadata_of(Secret), api.OPERAND_SECRET_NAME, place) for place in places]
        ours = [one for one in there if one and version_record.holds_credentials(one, recorded, moves)]
        holding = [one.metadata.namespace for one in ours]
        namespace = credentials.operand_namespace(holding, wanted)
        own = await self._secret(api.CLUSTER_ID_SECRET_NAME, namespace)
        compared = CredentialsComparison(
            wanted=wanted,
            namespace=namespace,
            found=holding,
            config_cluster_id=config.data.get("CLUSTER_ID") if config else None,
            initial_cluster_id=credentials.text(own.data, credentials.INITIAL_CLUSTER_ID_KEY) if own else None,
        )
        gone = [Address(Secret.resource, key) for key in compared.former_secrets]
        return {one.ref: "it belongs to the former credentials" for one in gone if await self._is_there(one)}


def _nothing_to_do(operator: BtpOperator, why: str) -> PreviewFailed:
    fix = f"see why: stellwerk why btp/{operator.metadata.name} -n {operator.metadata.namespace}"
    return PreviewFailed(why, fix=fix, nothing_to_do=True)


def _image(release: ModuleRelease, operand: Unstructured | None) -> str:
    """The image that runs, else the manifest's. Raises PreviewFailed."""
    bodies = [*([operand.body] if operand else []), *(document.body for document in release.documents)]
    if image := next(filter(None, map(resources.operand_image, bodies)), ""):
        return image
    why = "the operand does not run yet, and only the operator's environment defines its image"
    raise PreviewFailed(why, fix="name it with --image")


def _renewed(
    authority: certs.KeyPair | None, webhook: certs.KeyPair | None, settings: Settings
) -> dict[ObjectRef, str]:
    decision = certificates.judged(authority, webhook, now=datetime.now(UTC), settings=settings)
    keys = [ObjectKey(settings.chart_namespace, name) for name in decision.secrets]
    return {Address(Secret.resource, key).ref: decision.why for key in keys}


def _opted_out(module: Iterable[Address], settings: Settings, policies_wanted: bool) -> dict[ObjectRef, str]:
    if policies_wanted:
        return {}
    here = settings.chart_namespace
    found = [one for one in module if one.resource.kind == "NetworkPolicy" and one.key.namespace == here]
    return {one.ref: f"annotation {api.DISABLE_NETWORK_POLICIES_ANNOTATION}" for one in found}


class BtpPreviewer:
    """Computes what the BTP Manager would apply for a BtpOperator."""

    kind = BtpOperator
    accepts_image = True

    async def preview(self, subject: BtpOperator, request: PreviewRequest) -> Preview:
        """See `Previewer`. In the local system the module is the one that the local BTP Manager has."""
        desk = BtpPreviewInput(
            client=request.client.with_field_manager(api.OPERATOR_NAME),
            renderer=request.renderer,
            folder=request.folder or _simulated_module(request.local_folder),
            image=request.image,
        )
        try:
            return await desk.preview(subject)
        except ModuleUnreadable as error:
            raise PreviewFailed(str(error), fix="name a folder with the module with --path") from None
        except (StepFailed, ApplyError) as error:
            raise PreviewFailed(str(error)) from None


previewer = BtpPreviewer()


def _simulated_module(local_folder: Path | None) -> Path | None:
    folder = local_folder / rehearsal.FOLDER if local_folder else None
    return folder if folder and folder.is_dir() else None
