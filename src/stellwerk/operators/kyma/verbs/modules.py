"""The module list of one Kyma: what is shown, and what changes in it.

In a remote cluster its user edits the Kyma kyma-system/default. The Kyma of the control plane has the list that a new
cluster begins with: once the cluster has its own, a change there would have no effect, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from typing import TypeAlias, cast

from stellwerk.delivery.verb_plans import AwaitedObject, Edit, VerbPlan, VerbRefused, VerbRequest, VerbTable
from stellwerk.kube.types.errors import Forbidden, NotFound, NotServed
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey
from stellwerk.kube.types.model import JsonObject, Unstructured, metadata_of
from stellwerk.kube.types.semantic_version import precedence
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma, ModuleStatus
from stellwerk.operators.kyma.api_manifest import CustomResourcePolicy
from stellwerk.operators.kyma.api_module import ModuleTemplate
from stellwerk.operators.kyma.api_status import State
from stellwerk.operators.kyma.kyma.catalog import is_marked
from stellwerk.operators.kyma.mandatory.modules import version_of
from stellwerk.operators.kyma.verbs.chosen import Chosen, read, status_of
from stellwerk.operators.kyma.verbs.declared import (
    BEGINNING_OPTION,
    CHANNEL,
    CHANNEL_OPTION,
    KYMA_OPTION,
    MODULE,
    POLICY_OPTION,
)
from stellwerk.runtime.conditions import first_of

Entries: TypeAlias = list[JsonObject]
_SEEN = (State.Ready, State.Warning, State.Error)


# ---- what is shown


async def listed(request: VerbRequest) -> VerbPlan:
    """The modules of a Kyma. Raises VerbRefused, ApiError."""
    return list_of(await read(request))


def list_of(chosen: Chosen) -> VerbPlan:
    """The same from what was read (pure)."""
    kyma = chosen.kyma
    entries = {each.name: each for each in kyma.spec.modules}
    names = {each.name for each in kyma.status.modules} | ({*entries} - ({*entries} if chosen.is_beginning else set()))
    rows: list[list[str]] = []
    values: list[JsonObject] = []
    for name in sorted(names):
        entry, status = entries.get(name), chosen.status(name)
        is_unmanaged = status is not None and status.state == State.Unmanaged
        managed = not is_unmanaged if chosen.is_beginning or entry is None else entry.managed
        channel = (status.channel if status else "") or (entry.channel if entry else "") or chosen.channel
        version, state, message = (status.version, status.state, status.message) if status else ("", State.Unset, "")
        policy = entry.custom_resource_policy if entry is not None and not chosen.is_beginning else ""
        rows.append([name, channel, version, state, "yes" if managed else "no", policy, message])
        values.append(
            {
                "name": name,
                "channel": channel,
                "version": version,
                "state": str(state),
                "managed": managed,
                "customResourcePolicy": policy,
                "message": message,
            }
        )
    add = f"stellwerk module catalog {chosen.where}"
    table = VerbTable(
        titles=("MODULE", "CHANNEL", "VERSION", "STATE", "MANAGED", "CR POLICY", "MESSAGE"),
        rows=rows,
        values=values,
        empty=f"{kyma.ref} has no modules.\nNext: {add}",
    )
    return VerbPlan(table=table)


async def catalog(request: VerbRequest) -> VerbPlan:
    """The modules that a Kyma may have. Raises VerbRefused, ApiError."""
    return catalog_for(await read(request), request.words[MODULE])


def catalog_for(chosen: Chosen, names: Sequence[str]) -> VerbPlan:
    """The same from what was read, of these modules or of all (pure). Raises VerbRefused."""
    if chosen.offers is None:
        raise VerbRefused(
            "the catalog cannot be read: you may not list ModuleReleaseMetas and ModuleTemplates",
            fix=f"ask for the right to list them in namespace {chosen.obj.key.namespace}",
        )
    for name in names:
        _templates(chosen, name)
    rows: list[list[str]] = []
    values: list[JsonObject] = []
    for name, channels in sorted(chosen.offers.items()):
        if names and name not in names:
            continue
        status = chosen.status(name)
        for channel, template in sorted(channels.items()):
            version, info = version_of(template), template.spec.info
            is_installed = status is not None and (status.channel, status.version) == (channel, version)
            marks = [
                *(mark for mark, label in _MARKS.items() if is_marked(template, label)),
                *(["downtime"] if template.spec.requires_downtime else []),
            ]
            documentation = info.documentation if info is not None else ""
            rows.append([name, channel, version, "installed" if is_installed else "", ",".join(marks), documentation])
            values.append(
                {
                    "name": name,
                    "channel": channel,
                    "version": version,
                    "installed": is_installed,
                    "marks": [*marks],
                    "documentation": documentation,
                }
            )
    table = VerbTable(
        titles=("MODULE", "CHANNEL", "VERSION", "INSTALLED", "MARKS", "DOCUMENTATION"),
        rows=rows,
        values=values,
        empty=f"{chosen.obj.ref} may have no module: see stellwerk get mrm -A",
    )
    return VerbPlan(table=table)


_MARKS = {"beta": labels.BETA_LABEL, "internal": labels.INTERNAL_LABEL}


# ---- what changes


async def add(request: VerbRequest) -> VerbPlan:
    """Further modules. Raises VerbRefused, ApiError."""
    texts = request.texts
    return added(await _own_list(request), request.words[MODULE], texts[CHANNEL_OPTION], texts[POLICY_OPTION])


def added(chosen: Chosen, names: Sequence[str], channel: str, policy: str) -> VerbPlan:
    """The same from what was read (pure). Raises VerbRefused."""
    notes = [] if chosen.offers is not None else [_NOT_CHECKED]
    new: dict[str, JsonObject] = {}
    for name in names:
        _check_channel(chosen, name, channel or chosen.channel)
        entry = chosen.entry(name)
        if entry is None:
            made: JsonObject = {"name": name, "managed": True}
            if channel:
                made["channel"] = channel
            new[name] = {**made, "customResourcePolicy": policy or CustomResourcePolicy.CreateAndDelete}
        elif channel and channel != (entry.channel or chosen.channel):
            raise VerbRefused(
                f"{chosen.obj.ref} has the module {name} already, from channel {entry.channel or chosen.channel}",
                fix=f"change it: stellwerk module channel {name} {channel} {chosen.where}",
            )
        else:
            notes.append(f"{chosen.obj.ref} has the module {name} already")
    return _plan(
        chosen,
        [*names],
        lambda entries: entries + [new[name] for name in new if name not in _names(entries)],
        [f"module {name} is added to {chosen.obj.ref}" for name in new],
        ended=lambda status: _is_seen(status) or _is_unmanaged(status),
        good=lambda status: _is_unmanaged(status) or (status is not None and status.state == State.Ready),
        notes=notes,
    )


async def remove(request: VerbRequest) -> VerbPlan:
    """Modules that go. Raises VerbRefused, ApiError."""
    chosen = await _own_list(request)
    names = request.words[MODULE]
    return removed(chosen, names, [each for name in names for each in await _custom_resources(request, chosen, name)])


def removed(chosen: Chosen, names: Sequence[str], obstacles: Sequence[str] = ()) -> VerbPlan:
    """The same from what was read (pure). `obstacles`: what keeps them. Raises VerbRefused."""
    present, notes = [], [*obstacles]
    for name in names:
        status, entry = chosen.status(name), chosen.entry(name)
        if entry is None and (status is None or chosen.is_beginning):
            raise VerbRefused(f"{chosen.obj.ref} has no module {name}", fix=_of_list(chosen, name))
        if entry is None:
            cause = f": {status.message}" if status is not None and status.message else ""
            notes.append(f"module {name} is being removed already{cause}")
            continue
        if not entry.managed and (status is not None and status.state != State.Unmanaged):
            raise VerbRefused(
                f"module {name} is not unmanaged yet, and would be removed with its objects",
                fix=f"wait until it shows Unmanaged: stellwerk module list {chosen.where}",
            )
        if not entry.managed:
            notes.append(f"the objects of module {name} stay in the cluster, because it is unmanaged")
        present.append(name)
    managed = [name for name in present if (entry := chosen.entry(name)) is not None and entry.managed]
    plural = "s" if len(managed) > 1 else ""
    return _plan(
        chosen,
        [*names],
        lambda entries: [each for each in entries if each.get("name") not in present],
        [f"module {name} is removed from {chosen.obj.ref}" for name in present],
        ended=lambda status: status is None,
        good=lambda status: status is None,
        notes=notes,
        destroys=f"module{plural} {', '.join(managed)} of {chosen.obj.ref} with all objects" if managed else "",
    )


async def channel(request: VerbRequest) -> VerbPlan:
    """A module from another channel. Raises VerbRefused, ApiError."""
    return moved(await _own_list(request), request.texts[MODULE], request.texts[CHANNEL])


def moved(chosen: Chosen, name: str, wanted: str) -> VerbPlan:
    """The same from what was read (pure). Raises VerbRefused."""
    entry, status = chosen.entry(name), chosen.status(name)
    if entry is None:
        raise VerbRefused(f"{chosen.obj.ref} has no module {name}", fix=_of_list(chosen, name))
    _check_channel(chosen, name, wanted)
    template = (chosen.offers or {}).get(name, {}).get(wanted)
    if status is not None and status.version and template is not None and not chosen.is_beginning:
        new, old = precedence(version_of(template)), precedence(status.version)
        if new[0] and old[0] and new[1] < old[1]:
            raise VerbRefused(
                f"channel {wanted} has version {version_of(template)} of module {name}, and {status.version} is "
                "installed: a module is not downgraded",
                fix=f"choose another channel: stellwerk module catalog {name} {chosen.where}",
            )

    def edited(entries: Entries) -> Entries:
        return [{**each, "channel": wanted} if each.get("name") == name else each for each in entries]

    is_so = entry.channel == wanted
    notes = [f"module {name} comes from channel {wanted} already"] if is_so else []
    if not entry.managed:
        notes.append(f"module {name} is unmanaged, and follows its channel once it is managed again")
    return _plan(
        chosen,
        [name],
        edited,
        [] if is_so else [f"module {name} of {chosen.obj.ref} comes from channel {wanted}"],
        ended=lambda status: status is not None and _is_seen(status) and status.channel == wanted,
        good=lambda status: status is not None and status.state == State.Ready,
        notes=notes,
        is_awaited=entry.managed,
    )


async def manage(request: VerbRequest) -> VerbPlan:
    """Modules that get updates again. Raises VerbRefused, ApiError."""
    return managed(await _own_list(request), request.words[MODULE], True)


async def unmanage(request: VerbRequest) -> VerbPlan:
    """Modules that are left alone. Raises VerbRefused, ApiError."""
    return managed(await _own_list(request), request.words[MODULE], False)


def managed(chosen: Chosen, names: Sequence[str], wanted: bool) -> VerbPlan:
    """Both from what was read (pure). Raises VerbRefused."""
    word = "managed" if wanted else "unmanaged"
    notes, changed = [], []
    for name in names:
        entry = chosen.entry(name)
        if entry is None:
            raise VerbRefused(f"{chosen.obj.ref} has no module {name}", fix=_of_list(chosen, name))
        if entry.managed == wanted:
            notes.append(f"module {name} is {word} already")
        else:
            changed.append(name)

    def edited(entries: Entries) -> Entries:
        return [{**each, "managed": wanted} if each.get("name") in changed else each for each in entries]

    return _plan(
        chosen,
        [*names],
        edited,
        [f"module {name} of {chosen.obj.ref} is {word}" for name in changed],
        ended=_is_seen if wanted else _is_unmanaged,
        good=lambda status: status is not None and status.state == (State.Ready if wanted else State.Unmanaged),
        notes=notes,
    )


# ---- what they share


_NOT_CHECKED = "names and channels are not checked, because you may not list ModuleReleaseMetas and ModuleTemplates"


async def _own_list(request: VerbRequest) -> Chosen:
    """The Kyma whose list changes. Raises VerbRefused if it is not the one that is followed."""
    chosen = await read(request)
    refuse_beginning(chosen, allowed=BEGINNING_OPTION in request.flags)
    return chosen


def refuse_beginning(chosen: Chosen, *, allowed: bool) -> None:
    """Raise VerbRefused for a list that nothing follows any more (pure)."""
    if allowed or not chosen.is_beginning:
        return
    namespace, name = chosen.obj.key.namespace, chosen.obj.key.name
    secret = f"kubectl get secret -n {namespace} -l {labels.KYMA_NAME_LABEL}={name} -o jsonpath='{{.items[0].data."
    raise VerbRefused(
        f"the modules of {chosen.obj.ref} are chosen in its own cluster, in Kyma {labels.SKR_KYMA}; the list here is "
        f"that of a new cluster, which {BEGINNING_OPTION} changes",
        fix=f"use the kubeconfig of that cluster: {secret}{labels.KUBECONFIG_KEY}}}' | base64 -d > {name}.yaml; then "
        f"run the command again with --kubeconfig {name}.yaml instead of -n and {KYMA_OPTION}",
    )


def _plan(
    chosen: Chosen,
    names: Sequence[str],
    edited: Callable[[Entries], Entries],
    done: Sequence[str],
    *,
    ended: Callable[[ModuleStatus | None], bool],
    good: Callable[[ModuleStatus | None], bool],
    notes: Sequence[str],
    destroys: str = "",
    is_awaited: bool = True,
) -> VerbPlan:
    """A change of the list, and the ends of its modules. What others write to the list meanwhile stays."""

    def patch(seen: Unstructured) -> JsonObject | None:
        found = seen.at("spec", "modules")
        before = cast("Entries", found) if isinstance(found, list) else []
        after = edited(before)
        return {"spec": {"modules": [*after]}} if after != before else None

    def awaited(name: str) -> AwaitedObject[Kyma]:
        return AwaitedObject(
            kind=Kyma,
            key=ObjectKey(chosen.obj.key.namespace, chosen.obj.key.name),
            ended=lambda kyma: ended(status_of(kyma, name)),
            good=lambda kyma: good(status_of(kyma, name)),
            shown=partial(_line, name),
        )

    edit = Edit(resource=Kyma.resource, seen=chosen.obj, patch=patch, done=done)
    return VerbPlan(
        writes=[edit] if done else [],
        # What a new cluster begins with shows in the status of no cluster.
        awaited=[awaited(name) for name in names] if is_awaited and not chosen.is_beginning else [],
        notes=notes,
        destroys=destroys,
    )


def _line(name: str, kyma: Kyma) -> str:
    """How a module is, in one line."""
    status = status_of(kyma, name)
    if status is None:
        return f"module {name} of {kyma.ref}: not there"
    words = (name, status.version, f"is {status.state}" if status.state else "was not looked at so far")
    return f"module {' '.join(filter(None, words))}{f': {status.message}' if status.message else ''}"


def _is_seen(status: ModuleStatus | None) -> bool:
    return status is not None and status.state in _SEEN


def _is_unmanaged(status: ModuleStatus | None) -> bool:
    return status is not None and status.state == State.Unmanaged


def _names(entries: Entries) -> set[object]:
    return {each.get("name") for each in entries}


def _of_list(chosen: Chosen, name: str) -> str:
    kyma = chosen.kyma
    names = {*(each.name for each in kyma.spec.modules), *(each.name for each in kyma.status.modules)}
    near = get_close_matches(name, names, n=1)
    return f"did you mean {near[0]}?" if near else f"see what it has: stellwerk module list {chosen.where}"


def _templates(chosen: Chosen, name: str) -> Mapping[str, ModuleTemplate]:
    """The channels of a module. Raises VerbRefused with the nearest name if the Kyma may not have it."""
    offers = chosen.offers or {}
    if name in offers:
        return offers[name]
    near = get_close_matches(name, offers, n=1)
    raise VerbRefused(
        f"the catalog of {chosen.obj.ref} has no module {name}",
        fix=f"did you mean {near[0]}?" if near else f"see what it has: stellwerk module catalog {chosen.where}",
    )


def _check_channel(chosen: Chosen, name: str, wanted: str) -> None:
    """Raise VerbRefused if the module is not offered, or not in this channel; as far as the user may read that."""
    if chosen.offers is None:
        return
    channels = _templates(chosen, name)
    if wanted not in channels:
        near = get_close_matches(wanted, channels, n=1)
        raise VerbRefused(
            f"module {name} has no channel {wanted}",
            fix=f"did you mean {near[0]}?" if near else f"choose one of {', '.join(sorted(channels))}",
        )


async def _custom_resources(request: VerbRequest, chosen: Chosen, name: str) -> Sequence[str]:
    """What keeps a module in the cluster of this Kyma, in one note: its custom resources but the default one."""
    status, entry = chosen.status(name), chosen.entry(name)
    template = (chosen.offers or {}).get(name, {}).get(status.channel if status is not None else chosen.channel)
    data = template.spec.data if template is not None else None
    if data is None or chosen.kyma.key != labels.SKR_KYMA:
        return ()
    try:
        gvk = GroupVersionKind.parse(str(data.get("apiVersion", "")), str(data.get("kind", "")))
        resource = await request.client.mapper.resource(gvk)
        listed = await request.client.list(metadata_of(resource), skip_unreadable=True)
    except (Forbidden, NotFound, NotServed):
        return ()
    default = status.resource if status is not None else None
    goes = default is not None and (entry is None or entry.custom_resource_policy != CustomResourcePolicy.Ignore)
    own = default.metadata.name if goes and default is not None else ""
    kept = sorted(str(each.key) for each in listed.items if each.key.name != own)
    if not kept:
        return ()
    return [f"module {name} stays until these objects of kind {gvk.kind} are deleted: {first_of(kept)}"]
