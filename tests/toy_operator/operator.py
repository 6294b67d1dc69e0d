"""The toy operator as a value."""

from __future__ import annotations

from stellwerk.delivery.operator_spec import Launch, OperatorSpec, OwnKind
from stellwerk.kube.types.identifiers import Resource
from stellwerk.lazy_imports import lazy_imports
from stellwerk.runtime.settings.table import Setting, SettingsTable
from tests.toy_operator.api import Settings
from tests.toy_operator.server import SERVER

with lazy_imports(__name__):
    from tests.toy_operator import controllers, installation


TABLE = SettingsTable(Settings(), (Setting(field="greeting", read=str, help="What pages begin with."),))

OPERATOR = OperatorSpec(
    name="toy",
    title="Toy operator",
    kinds=(
        OwnKind("site", Resource("toy.example.com", "v1", "Site", "sites", True)),
        OwnKind("page", Resource("toy.example.com", "v1", "Page", "pages", True)),
    ),
    settings=lambda: TABLE,
    start=lambda process, own, environment: Launch(
        installation.INSTALLATION.identity(), lambda parts: controllers.SITE.install(parts, (own,))
    ),
    installation=lambda: installation.INSTALLATION,
    help=lambda: {"Site": controllers.SITE.help()},
    insight=lambda: {"Site": controllers.SITE.insight((TABLE.defaults,))},
    servers=(SERVER,),
)
