"""Sets of objects into a cluster, and out again.

    manifests   text into documents                      pure, and the one reading of a folder
    desired     documents into the objects we want       pure
    compare     wanted against live                      pure
    order       what goes first                          pure
    plan        what has to be written, and why          pure; can be printed
    kinds       which of the named kinds are served      asks the server once per kind
    execute     the writes of one pass                   the only one that writes to a cluster
    readiness   is it ready; explain: why not            pure
    inventory   what a set consisted of before           pure

A pass is: read manifests, plan against the caches, execute the plan. It never waits: what is not ready yet arrives as a
change of a cache, and the next pass plans again.
"""
