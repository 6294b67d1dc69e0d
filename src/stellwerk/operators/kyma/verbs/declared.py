"""The words of the verbs. Light: completion and help read them."""

from __future__ import annotations

from stellwerk.delivery.operator_verbs import OfferedWords, OperatorVerb, OperatorVerbs, VerbArgument, VerbOption
from stellwerk.lazy_imports import lazy_imports

with lazy_imports(__name__):
    from stellwerk.operators.kyma.verbs import modules

MODULE, CHANNEL = "MODULE", "CHANNEL"
KYMA_OPTION, CHANNEL_OPTION, POLICY_OPTION, BEGINNING_OPTION = "--kyma", "--channel", "--cr-policy", "--for-new-cluster"
POLICIES = ("CreateAndDelete", "Ignore")

_MODULES = VerbArgument(name=MODULE, many=True, offered=OfferedWords("mrm"))
_CHANNELS = OfferedWords("mrm", ("spec", "channels", "channel"))
_KYMA = VerbOption(
    flag=KYMA_OPTION,
    metavar="NAME",
    help="The Kyma; without it, kyma-system/default or the only one.",
    offered=OfferedWords("kyma"),
)
_BEGINNING = VerbOption(
    flag=BEGINNING_OPTION,
    help="In the control plane: change the list that a cluster begins with, although the cluster has its own.",
)

VERBS = OperatorVerbs(
    name="module",
    summary="Look at and choose the modules of a Kyma.",
    verbs=(
        OperatorVerb(
            name="list",
            help="""\
List the modules of a Kyma with their state.

A module that is being removed stays in the list until nothing blocks it any more; MESSAGE shows what does.""",
            plan=lambda request: modules.listed(request),
            options=(_KYMA,),
            only_shows=True,
        ),
        OperatorVerb(
            name="catalog",
            help="""\
List the modules that a Kyma may have, with the version that each channel offers.""",
            plan=lambda request: modules.catalog(request),
            arguments=(VerbArgument(name=MODULE, many=True, required=False, offered=OfferedWords("mrm")),),
            options=(_KYMA,),
            only_shows=True,
        ),
        OperatorVerb(
            name="add",
            help="""\
Add modules to a Kyma.

Each gets its default custom resource, unless the policy is Ignore.""",
            plan=lambda request: modules.add(request),
            arguments=(_MODULES,),
            options=(
                VerbOption(
                    flag=CHANNEL_OPTION,
                    metavar=CHANNEL,
                    help="The channel that its version comes from; without it, that of the Kyma.",
                    offered=_CHANNELS,
                ),
                VerbOption(
                    flag=POLICY_OPTION,
                    metavar="|".join(POLICIES),
                    values=POLICIES,
                    help="Whether the default custom resource is created and deleted with the module.",
                ),
                _KYMA,
                _BEGINNING,
            ),
        ),
        OperatorVerb(
            name="remove",
            help="""\
Remove modules from a Kyma, with all of their objects.

A module stays until its custom resources are deleted. They are named before anything is asked.""",
            plan=lambda request: modules.remove(request),
            arguments=(_MODULES,),
            options=(_KYMA, _BEGINNING),
            is_destructive=True,
        ),
        OperatorVerb(
            name="channel",
            help="""\
Take a module from another channel.

A channel with an older version than the installed one is refused: no module is downgraded.""",
            plan=lambda request: modules.channel(request),
            arguments=(
                VerbArgument(name=MODULE, offered=OfferedWords("mrm")),
                VerbArgument(name=CHANNEL, offered=_CHANNELS),
            ),
            options=(_KYMA, _BEGINNING),
        ),
        OperatorVerb(
            name="manage",
            help="""\
Have modules managed again: they get the version of their channel, and their objects are put back.""",
            plan=lambda request: modules.manage(request),
            arguments=(_MODULES,),
            options=(_KYMA, _BEGINNING),
        ),
        OperatorVerb(
            name="unmanage",
            help="""\
Leave modules as they are: their objects stay in the cluster, without updates.""",
            plan=lambda request: modules.unmanage(request),
            arguments=(_MODULES,),
            options=(_KYMA, _BEGINNING),
        ),
    ),
)
