"""`stellwerk list`: the releases in a cluster."""

from __future__ import annotations

from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.releases import releasing
from stellwerk.cli.shell import output, settings, text
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.releases.release_store import ReleaseStore


@with_cluster
async def list_releases(cluster: ClusterSession) -> None:
    """Print the releases in the chosen namespaces. One that cannot be read is reported, and the others are printed."""
    chosen = cluster.settings.output
    with releasing.explained("list", ObjectKey(cluster.namespace, "*")):
        listing = await ReleaseStore(cluster.client).all(cluster.namespace)
    for problem in listing.problems:
        settings.say(text.escaped(problem))
    found = listing.releases
    if chosen.form == "yamlstream":
        settings.show_exactly("".join(f"---\n{output.as_yaml(releasing.as_json(one))}" for one in found))
    elif chosen.form == "name":
        settings.show(one.key.name for one in found)
    elif not chosen.is_table:
        output.print_values([releasing.as_json(one) for one in found], chosen)
    elif found:
        settings.show(releasing.table(found))
    elif not listing.problems:
        where = f"namespace {cluster.namespace}" if cluster.namespace else "any namespace"
        settings.say(f"There is no release in {where}. Make one: stellwerk apply NAME SOURCE")
