"""The command line of the BTP Manager, and the reference page of all that can be set.

The flags of the original operator are taken as they are written in its deployments, Go's spelling included. Those about
the module are made from the table in `settings.py`; those about the process are the same for all operators.
"""

from __future__ import annotations

from collections.abc import Mapping

import click

from stellwerk.operators.btp.settings import ALL, Settings, as_text
from stellwerk.runtime.settings import flags, process_flags
from stellwerk.runtime.settings.flags import code


def options() -> list[click.Option]:
    """One click option for each tunable that has a flag."""
    defaults = as_text(Settings())
    return [flags.option(one.flag, one.read, help=one.help, default=defaults[one.key]) for one in ALL if one.flag]


def from_flags(values: Mapping[str, object]) -> Settings:
    """The settings that click's parameters ask for; a parameter that is None or not ours is left out."""
    return flags.chosen(Settings, values)


def normalised_arguments(arguments: list[str]) -> list[str]:
    """Arguments of the original operator's command line, `-chart-path=x` and `--leader-elect=false`, for click."""
    return process_flags.normalised(arguments, names={tunable.flag for tunable in ALL if tunable.flag})


# ---- the reference page


def page() -> str:
    """The reference page of all tunables, as Markdown."""
    defaults = as_text(Settings())
    rows = [
        " | ".join(
            ("", code(one.key), code(one.flag and f"--{one.flag}"), code(defaults[one.key]), one.help, "")
        ).strip()
        for one in ALL
    ]
    return "\n".join([_HEAD, *rows, process_flags.page()])


_HEAD = """# Settings of the BTP Manager

A value comes from the ConfigMap `kyma-system/sap-btp-manager`, else from its flag, else it is the default. A value in
the ConfigMap that cannot be read has no effect and is reported; a key that is removed gives flag or default back.
Durations are written as in Go: `90s`, `5m`, `1h30m`, `-168h`, `0`.

| key | flag | default | meaning |
| --- | --- | --- | --- |"""
