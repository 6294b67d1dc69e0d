"""The module as a Helm chart: a folder and values become a release like one of a folder of manifests.

The chart is rendered when its files, `overrides.yaml` next to it, or the values change, and then kept: a pass over a
calm module renders nothing. What templates see of the cluster is what it served at that moment; `lookup` finds nothing,
as with `helm template`.

Helm installs nothing here, so instructions of a chart to Helm have no effect. Hooks for the end of a release are left
out: we remove the module ourselves. Other hooks are objects like all others. Two Secrets of the chart are left out,
too: the certificates in them are made by us, and a template would make others each time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from stellwerk.apply.objects import json_edit
from stellwerk.apply.objects.desired import Document, Origin
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.operators.btp import api
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.credentials.credentials import BtpCredentials, text
from stellwerk.operators.btp.errors import ChartPathEmpty, ChartUnusable
from stellwerk.operators.btp.module import release
from stellwerk.operators.btp.module.release import CHART_FILE, Loader, ModuleRelease, Places, Stamp
from stellwerk.operators.btp.settings import Settings
from stellwerk.render.errors import RenderError, SourceError
from stellwerk.render.files.files import Files
from stellwerk.render.request import values
from stellwerk.render.request.capabilities import facts_of
from stellwerk.render.request.request import ReleaseInfo as Installation
from stellwerk.render.request.request import Rendered, RenderRequest
from stellwerk.render.request.values import Layer
from stellwerk.render.worker.renderer import Renderer
from stellwerk.runtime.telemetry import traces

OVERRIDES_FILE = "overrides.yaml"
MOST_BYTES = 32 * 2**20
"""A chart weighs some hundred KiB; a path that names the root of a disk by mistake must not be read into memory."""

HOOKS_PREFIX = "hooks.btp-manager.kyma-project.io"
"""Of the annotations that hooks are mapped to. They are for an engine that runs hooks; they are taken off again."""

_SECRET_KEYS = ("clientid", "clientsecret", "sm_url", "tokenurl")


def layers(credentials: BtpCredentials) -> tuple[Layer, ...]:
    """The values that we set, over those of the files."""
    secret: JsonObject = {key: text(credentials.operand_data, key) for key in _SECRET_KEYS}
    return (
        Layer("the required Secret", {"manager": {"secret": secret}}, secret=True),
        Layer("the cluster id", {"cluster": {"id": credentials.cluster_id}}),
    )


class ReleaseSupplier:
    """Answers with the release that is wanted now: read from folders of manifests, or rendered from the module's chart.

    The source may change while we run. Objects that both have stay as they are: they carry the same names and labels.
    A rendered release is kept until something that counts has changed.
    """

    def __init__(self, settings: Callable[[], Settings], renderer: Renderer, client: Client) -> None:
        self._settings = settings
        self._renderer = renderer
        self._client = client
        self._folders = Loader()
        self._known: tuple[Places, Stamp, Installation, tuple[Layer, ...]] | None = None
        self._release: ModuleRelease | None = None

    @property
    def is_chart(self) -> bool:
        """Whether the module comes from a chart now."""
        return release.comes_from_chart(self._settings())

    async def current(self, operator: BtpOperator, credentials: BtpCredentials) -> ModuleRelease:
        """The module as it is wanted now.

        Raises ModuleUnreadable; for a chart ChartPathEmpty, and ChartUnusable with file and line.
        """
        settings = self._settings()
        places = Places.of(settings)
        if not self.is_chart:
            return self._folders.load(places)
        if not settings.chart_path:
            raise ChartPathEmpty("set ChartPath, or set ModuleSource to resources")
        installation = Installation(operator.metadata.name, settings.chart_namespace)
        known = places, stamp(places), installation, layers(credentials)
        if self._release is None or known != self._known:
            self._release = None
            self._release = await self._rendered(places, installation, layers(credentials))
            self._known = known
        return self._release

    async def _rendered(self, places: Places, installation: Installation, own: tuple[Layer, ...]) -> ModuleRelease:
        chart = places.chart
        try:
            files, overrides = await asyncio.to_thread(read, chart)
            merged = (Layer(OVERRIDES_FILE, overrides), *own)
            request = RenderRequest(
                files=files,
                generator="helm",
                prefix=HOOKS_PREFIX,
                delete_hooks="omit",
                release=installation,
                values=values.merge(merged),
                cluster=await facts_of(self._client),
                tenant=api.OPERATOR_NAME,
                secrets=lambda: values.secret_words(merged),
            )
            with traces.within("render") as span:
                rendered = await self._renderer.render(request)
                span.record(objects=len(rendered.objects))
        except OSError as error:
            raise ChartUnusable(f"{error.filename or chart}: {error.strerror or 'cannot be read'}") from error
        except (RenderError, ApiError) as error:
            raise ChartUnusable(f"{chart}: {error}") from error
        return ModuleRelease(
            version=release.label_value(rendered.chart.version if rendered.chart else ""),
            documents=documents(rendered),
            network_policies=release.network_policies(places),
            from_chart=True,
        )


def documents(rendered: Rendered) -> tuple[Document, ...]:
    """The rendered objects that are ours to apply, with where they were written."""
    pairs = zip(rendered.objects, rendered.origins, strict=True)
    return tuple(Document(_plain(body), Origin(file=origin)) for body, origin in pairs if not _is_certificate(body))


def _is_certificate(body: JsonObject) -> bool:
    return body.get("kind") == "Secret" and dig(body, "metadata", "name") in api.CERTIFICATE_SECRETS


def _plain(body: JsonObject) -> JsonObject:
    annotations = dig(body, "metadata", "annotations")
    if not isinstance(annotations, dict):
        return body
    kept = {key: value for key, value in annotations.items() if not key.startswith(f"{HOOKS_PREFIX}/")}
    return body if len(kept) == len(annotations) else json_edit.with_value(body, kept, "metadata", "annotations")


# ---- files


def stamp(places: Places) -> Stamp:
    """What shows whether a file of the chart, or of our network policies, has changed."""
    return release.stamp_of([*_chart_files(places.chart), _overrides(places.chart), *places.network_policy_files()])


def _chart_files(chart: Path) -> Iterator[Path]:
    """Every file of a chart. What begins with two dots is how a ConfigMap's volume keeps its versions."""
    for folder, names, files in os.walk(chart):
        names[:] = sorted(name for name in names if not name.startswith(".."))
        yield from (Path(folder, name) for name in sorted(files) if not name.startswith(".."))


def _overrides(chart: Path) -> Path:
    return chart.parent / OVERRIDES_FILE


def read(chart: Path) -> tuple[Files, JsonObject]:
    """The chart's files and the overrides. Raises OSError, SourceError and InvalidValues; blocks."""
    (chart / CHART_FILE).stat()  # reports better than Helm what is missing
    contents: dict[str, bytes] = {}
    size = 0
    for path in _chart_files(chart):
        size += path.stat().st_size
        if size > MOST_BYTES:
            raise SourceError(f"the folder holds more than {MOST_BYTES >> 20} MiB; is it a chart?")
        contents[path.relative_to(chart).as_posix()] = path.read_bytes()
    return Files.of(contents), _read_overrides(_overrides(chart))


def _read_overrides(file: Path) -> JsonObject:
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return {}
    return values.read(text, str(file))
