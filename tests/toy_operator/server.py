"""A server of the toy operator: it greets by HTTP, without any controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stellwerk.delivery.grants import grant
from stellwerk.delivery.installation import Installation, Port
from stellwerk.delivery.operator_spec import Launch, ServerSpec
from stellwerk.runtime.process.process import Parts
from stellwerk.runtime.serving.http import ListenAddress, Route, Server
from stellwerk.runtime.serving.http_messages import Request, Response, text
from stellwerk.runtime.settings import parsers
from stellwerk.runtime.settings.process_settings import ProcessSettings
from stellwerk.runtime.settings.table import Setting, SettingsTable
from tests.toy_operator.api import Site


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    port: int = 8000


TABLE = SettingsTable(Settings(), (Setting(field="port", read=parsers.number(1, 65_535), help="Where it greets."),))
INSTALLATION = Installation(
    namespace="toy",
    account="toy-greeter",
    grants=(grant("toy.example.com", "sites", "list watch", "no Site is greeted"),),
    home_grants=(grant("", "secrets", "get", "no Secret is greeted"),),
    ports=(Port(name="http", flag="port", number=8000),),
)


def _start(process: ProcessSettings, settings: Settings, environment: Mapping[str, str]) -> Launch:
    def install(parts: Parts) -> None:
        sites = parts.manager.informer(Site, required=True)

        async def greet(request: Request) -> Response:
            return text(", ".join(f"Hello {site.spec.title}" for site in sites.store.all()))

        server = Server("greeter", ListenAddress("127.0.0.1", settings.port), [Route("GET", "/", greet)])
        parts.manager.add_server("greeter", server)

    return Launch(INSTALLATION.identity(), install)


SERVER = ServerSpec(
    name="toy-greeter",
    title="Toy greeter",
    serves="greetings by HTTP",
    settings=lambda: TABLE,
    start=_start,
    installation=lambda: INSTALLATION,
)
