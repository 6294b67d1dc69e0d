"""The command line of the BTP Manager, and the reference page of all that can be set.

The flags of the original operator are taken as they are written in its deployments, Go's spelling included. Those about
the module are made from the table in `settings.py`; those about the process are the same for all operators.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

import click

from stellwerk.operators.btp.settings import ALL, Settings, as_text
from stellwerk.runtime import process_flags
from stellwerk.runtime.process_flags import Parsed


def options() -> list[click.Option]:
    """One click option for each tunable that has a flag."""
    return [
        click.Option(
            [f"--{tunable.flag}"],
            type=Parsed(tunable.read),
            default=None,
            metavar="TEXT",
            help=f"{tunable.help} [default: {tunable.write(tunable.default) or 'none'}]",  # type: ignore[arg-type]
        )
        for tunable in ALL
        if tunable.flag
    ]


def from_flags(values: Mapping[str, object]) -> Settings:
    """The settings that click's parameters ask for; a parameter that is None or not ours is left out."""
    ours = {field.name for field in fields(Settings)}
    given = {name: value for name, value in values.items() if name in ours and value is not None}
    return Settings(**given)  # type: ignore[arg-type]  # click read them with the tunables' readers


def normalised_arguments(arguments: list[str]) -> list[str]:
    """Arguments of the original operator's command line, `-chart-path=x` and `--leader-elect=false`, for click."""
    return process_flags.normalised(arguments, names={tunable.flag for tunable in ALL if tunable.flag})


# ---- the reference page


def page() -> str:
    """The reference page of all tunables, as Markdown."""
    defaults = as_text(Settings())
    rows = [
        " | ".join(
            ("", _code(one.key), _code(one.flag and f"--{one.flag}"), _code(defaults[one.key]), one.help, "")
        ).strip()
        for one in ALL
    ]
    return "\n".join([_HEAD, *rows, process_flags.page()])


def _code(text: str) -> str:
    return f"`{text}`" if text else "none"


_HEAD = """# Settings of the BTP Manager

A value comes from the ConfigMap `kyma-system/sap-btp-manager`, else from its flag, else it is the default. A value in
the ConfigMap that cannot be read has no effect and is reported; a key that is removed gives flag or default back.
Durations are written as in Go: `90s`, `5m`, `1h30m`, `-168h`, `0`.

| key | flag | default | meaning |
| --- | --- | --- | --- |"""
