"""A set with a memory: rolled out wave by wave, with policies, and taken back in order.

    policy      what an author may ask for, of a set and of one object       pure
    owner       whose an object is, and how that is written on it            pure
    inventory   what the set consists of, and how far each object is         pure
    stored      the inventory as a status or a store keeps it                pure
    prepare     documents into wanted objects, everything checked            pure
    order       which kinds go first within a wave                           pure
    served      where the kinds are served, whatever version they once had   asks the server
    register    wanted against the inventory: who is new, who is to go       pure
    existing    what there is of the newcomers, whoever owns it              asks the server
    allowed     may cluster-wide objects be made at all                      asks the server
    scene       all that decides about one stage                             values
    stage       what can be done at once, and what is waited for             values
    waves       what to write next                                           pure
    decide      what one object needs                                        pure
    settling    is it ready, when it may have been written a moment ago      pure
    departures  what to take away next                                       pure
    hooks       what is to be done when the set goes, and its keeping        pure
    farewell    what to do next in a set that goes and has hooks             pure
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
