"""Sets of objects: bring them into a cluster, keep them as wanted, and delete them.

objects        manifests as wanted objects: names, kinds, edits                      pure, except discover
fields         wanted against live: which fields differ, and who manages them        pure
readiness      is an object ready (kstatus), and why a Deployment is not             pure
set            the engine for sets of objects: waves, policies, deletion in order
failures       what prevented a write                                                pure
errors         what can be wrong with a set

A pass is: read manifests, plan against the caches, execute the plan. It never waits: an object that becomes ready later
arrives as a change of a cache, and the next pass plans again.
"""
