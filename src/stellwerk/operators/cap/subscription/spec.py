"""The process of the subscription server as a value."""

from __future__ import annotations

from dataclasses import replace

from stellwerk.delivery.operator_spec import ServerSpec
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):
    from stellwerk.operators.cap import variables
    from stellwerk.operators.cap.chart import values
    from stellwerk.operators.cap.subscription import installation, local, process, settings

SERVER = ServerSpec(
    name="cap-server",
    title="CAP subscription server",
    serves="subscriptions of SaaS registries and of the Subscription Management Service",
    settings=lambda: settings.TABLE,
    start=lambda base, own, environment: process.launch(base, own, environment),
    installation=lambda: installation.INSTALLATION,
    process=lambda: variables.process(),
    chart_part=lambda: values.SERVER,
    local=lambda: LOCAL,
)

LOCAL: ServerSpec = replace(
    SERVER,
    local=None,
    settings=lambda: local.TABLE,
    start=lambda base, own, environment: local.launch(base, own, environment),
)
"""In a local system, where issuers and registries are programs of this machine."""
