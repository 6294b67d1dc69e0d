"""`stellwerk down`: the end of the local system."""

from __future__ import annotations

from stellwerk.cli.local import sample_files
from stellwerk.cli.shell import confirm, settings
from stellwerk.local.cluster import named


def down(name: str, keep_data: bool, yes: bool) -> None:
    """Stop the local system `name`, and remove its data after a confirmation unless `keep_data`."""
    cluster = named(name)
    beside = [each for each in sample_files.clusters(name) if each.exists]
    if not (cluster.exists or beside):
        settings.say(f"There is no local system {name!r}.")
        return
    if keep_data:
        for each in (cluster, *beside):
            each.stop(settings.say)
        return
    confirm.removal(f"the local system {name!r} with all its data", yes=yes)
    for each in (cluster, *beside):
        each.down(settings.say)
