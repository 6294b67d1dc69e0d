"""The cluster of a call.

The first that exists: the kubeconfig that `--kubeconfig` names, $KUBECONFIG, ~/.kube/config, the service account of the
pod, and the local system of this machine. So a new user needs no kubeconfig, and every choice of a user wins. The
current context counts where the user has chosen the file; the local system is what its own context names.
"""

from __future__ import annotations

import os
from dataclasses import replace

from stellwerk.cli.shell.errors import Failure
from stellwerk.cli.shell.settings import CallSettings
from stellwerk.kube.login.auth import NO_MATERIAL, Material, Token
from stellwerk.kube.login.config import ClusterConfig, checked_server, usual_kubeconfig
from stellwerk.lazy_imports import lazy_imports
from stellwerk.local.host.names import has_systems

with lazy_imports(__name__):
    from stellwerk.local import cluster, folder


def configuration(settings: CallSettings) -> ClusterConfig:
    """Where the cluster is and who we are to it. Raises Failure where there is none, LoginFailed."""
    config = _named(settings)
    if settings.server:
        config = replace(config, server=checked_server(settings.server))
    if settings.token:
        token = Token(Material(data=settings.token.encode()))
        config = replace(config, credentials=token, client_certificate=NO_MATERIAL, client_key=NO_MATERIAL)
    return config


def start_command(server: str) -> str:
    """The command that starts the local system whose API server this is; empty where it is none of this machine."""
    found = cluster.at_address(server) if has_systems() else None
    return cluster.command_line("up", found.folder.name) if found is not None else ""


def _named(settings: CallSettings) -> ClusterConfig:
    # The home folder last: where it cannot be read, the file that is named is all that is needed.
    if settings.kubeconfig or settings.context or os.environ.get("KUBECONFIG") or usual_kubeconfig().is_file():
        return ClusterConfig.load(settings.kubeconfig, settings.context)
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return ClusterConfig.in_cluster()
    if settings.server:
        return ClusterConfig(server=settings.server)
    local = cluster.default_kubeconfig()
    if local is None:
        raise Failure(
            "there is no cluster to look at",
            cause="no kubeconfig was named, ~/.kube/config does not exist, and there is no local system",
            fix="start a local system (stellwerk up), or name a kubeconfig (--kubeconfig FILE)",
        )
    return ClusterConfig.load(local, folder.CONTEXT)
