"""The process of the webhooks as a value."""

from __future__ import annotations

from stellwerk.delivery.operator_spec import ServerSpec
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):
    from stellwerk.operators.cap import variables
    from stellwerk.operators.cap.chart import values
    from stellwerk.operators.cap.webhooks import installation, process, settings

SERVER = ServerSpec(
    name="cap-webhooks",
    title="CAP webhooks",
    serves="which CAP objects users may create, change and delete",
    settings=lambda: settings.TABLE,
    start=lambda base, own, environment: process.launch(base, own, environment),
    installation=lambda: installation.INSTALLATION,
    process=lambda: variables.process(),
    chart_part=lambda: values.WEBHOOK,
)
