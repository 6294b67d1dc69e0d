"""Completion: the words that a shell offers when TAB is pressed.

Names come from the cluster, which may be slow or unreachable: no completion is better than one that makes the user
wait. The request has 150 ms, and a failure is silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from stellwerk.cli import kinds
from stellwerk.cli.shell import settings
from stellwerk.kube.types.identifiers import Resource
from stellwerk.lazy_imports import lazy_imports
from stellwerk.local.host.names import state_folder

with lazy_imports(__name__):
    from stellwerk.cli.completion import lookup
    from stellwerk.kube.login import config

if TYPE_CHECKING:
    from stellwerk.delivery.operator_verbs import OfferedWords

BUDGET_SECONDS = 0.15

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete_kind(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Short words and names of our kinds, and of the usual ones of Kubernetes. After a comma, the next kind."""
    before, comma, typed = incomplete.rpartition(",")
    words = [CompletionItem(f"{before}{comma}{row.short}", help=row.resource.kind) for row in kinds.OWN]
    words += [
        CompletionItem(f"{before}{comma}{resource.plural}")
        for resource in (*(row.resource for row in kinds.OWN), *(resource for _, resource in kinds.usual()))
        if typed
    ]
    return [word for word in words if word.value.startswith(incomplete)]


def complete_kind_or_name(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """A kind first, then names of its objects; after KIND/ names too."""
    if "/" in incomplete or _words(context, parameter):
        return complete_subject(context, parameter, incomplete)
    return complete_kind(context, parameter, incomplete)


def _words(context: click.Context, parameter: click.Parameter) -> tuple[str, ...]:
    """What the line has of this argument already."""
    found = context.params.get(parameter.name or "")
    return tuple(str(word) for word in found) if isinstance(found, tuple) else ()


def complete_subject(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """KIND/ first, then KIND/NAME; after a KIND its names."""
    words = _words(context, parameter)
    if words and "/" not in words[0]:
        return _names(context, words[0], "", incomplete)
    return _kind_and_name(context, [row.short for row in kinds.OWN], incomplete)


def complete_objects(kinds_named: tuple[str, ...]) -> Completer:
    """Names of the objects of one kind, or KIND/NAME of several."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        if len(kinds_named) == 1 and "/" not in incomplete:
            return _names(context, kinds_named[0], "", incomplete)
        return _kind_and_name(context, kinds_named, incomplete)

    return complete


def _kind_and_name(context: click.Context, shorts: Iterable[str], incomplete: str) -> list[CompletionItem]:
    """KIND/ of one of these short words; after it KIND/NAME."""
    kind, slash, name = incomplete.partition("/")
    if slash:
        return _names(context, kind, f"{kind}/", name)
    return [CompletionItem(f"{short}/") for short in shorts if short.startswith(kind)]


def complete_offered(offered: OfferedWords) -> Completer:
    """Words that an operator offers for a text."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        chosen, resource = settings.of(context), kinds.by_word(offered.kind)
        if not chosen.namespace:
            chosen = replace(chosen, all_namespaces=True)
        return _items("", _found(resource, chosen, path=offered.path) if resource else [], incomplete)

    return complete


def complete_release(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of releases, which are kept in ConfigMaps."""
    prefix = "com.sap.cs.clm.release."
    kept = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
    found = _found(kept, settings.of(context), labels="release.clm.cs.sap.com")
    return _items("", [name.removeprefix(prefix) for name in found if name.startswith(prefix)], incomplete)


def complete_subject_or_release(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """KIND/ or a release, then KIND/NAME."""
    found = complete_subject(context, parameter, incomplete)
    return found if "/" in incomplete else [*found, *complete_release(context, parameter, incomplete)]


def complete_namespace(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Namespaces of the cluster."""
    listed = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
    return _items("", _found(listed, settings.of(context)), incomplete)


def complete_context(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Contexts of the kubeconfig."""
    try:
        return _items("", config.context_names(settings.of(context).kubeconfig), incomplete)
    except Exception:  # as for names
        return []


def complete_format(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Forms of output; those that take something end with an equals sign."""
    forms = [f"{form}{equals}" for form, equals, _ in (spelled.partition("=") for spelled in settings.FORMATS)]
    return _items("", forms, incomplete)


def complete_system(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Local systems of this machine."""
    try:
        names = sorted(place.parent.name for place in state_folder().glob("*/kubeconfig"))
    except Exception:  # as for names
        return []
    return _items("", names, incomplete)


def _names(context: click.Context, kind: str, prefix: str, incomplete: str) -> list[CompletionItem]:
    usual = (resource for short, resource in kinds.usual() if kind.lower() in (short, resource.plural, resource.kind))
    resource = kinds.by_word(kind) or next(usual, None)
    return _items(prefix, _found(resource, settings.of(context)) if resource else [], incomplete)


def _found(
    resource: Resource, chosen: settings.CallSettings, labels: str = "", path: tuple[str, ...] = ()
) -> list[str]:
    try:
        return lookup.words(resource, chosen, BUDGET_SECONDS, labels=labels, path=path)
    except Exception:  # a shell's prompt is no place for messages, whatever the cause
        return []


def _items(prefix: str, names: list[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(prefix + name) for name in names if name.startswith(incomplete)]
