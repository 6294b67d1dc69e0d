"""A set with a memory: rolled out wave by wave, with policies, and taken back in order.

    policy      what an author may ask for, of a set and of one object       pure
    owner       whose an object is, and how that is written on it            pure
    inventory   what the set consists of, and how far each object is         pure
    prepare     documents into wanted objects, everything checked            pure
    register    wanted against the inventory: who is new, who is to go       pure
    existing    what there is of the newcomers, whoever owns it              asks the server
    waves       what to write next, and what is waited for                   pure
    decide      what one object needs                                        pure
    settling    is it ready, when it may have been written a moment ago      pure
    departures  what to take away next                                       pure
    actions     what can be done to an object                                values
    carry       does it                                                      writes
    namespaces  makes the namespaces that nobody made                        writes
    memory      what is known beyond what caches show                        pure
    usage       is anything of ours still used by others                     asks the server
    rollout     the pass: stages until nothing is left to write              effects

The decisions behind it are in `designs/rollout.md`. `apply.plan` keeps one set that is always wanted whole. This is
the larger sister for sets that people write: it has an inventory that survives restarts, because what is to go must be
known when the manifest no longer names it.
"""
