"""Sets of objects into a cluster, and out again.

    manifests   text into documents                      pure, and the one reading of a folder
    edit        small changes to an object               pure
    naming      what may be a name, a label or a key     pure
    desired     documents into the objects we want       pure
    kinds       which of the named kinds are served      asks the server once per kind
    compare     wanted against live                      pure
    ownership   who else writes an object                pure
    takeover_preview  what a take-over removes            pure
    order       what goes first                          pure
    plan        what has to be written, and why          pure; can be printed
    execute     the writes of one pass                   the only one that writes to a cluster
    together    the members of a wave, at the same time  waits for them
    failures    what stood in the way of a write         pure
    remarked    what the server remarked about a write   pure
    errors      what can go wrong with a set             pure
    readiness   is it ready (kstatus: the rules)         pure
    explain     why a Deployment is not                  pure
    leftovers   what an older version left behind        pure
    rollout     a set with an inventory, in waves        its own page

A pass is: read manifests, plan against the caches, execute the plan. It never waits: what is not ready yet arrives as a
change of a cache, and the next pass plans again.
"""
