"""A set with an inventory: applied wave by wave, with policies, and deleted in order.

model              what the author wants, and what the inventory records
checks             what is asked of the API server before anything is written
plan               what to write or delete next, and what to wait for           pure
executor           the only writer of this set; server_warnings: what the API server warned of
observed_state     what is known of the objects beyond the caches
object_set         the pass: plan and execute until nothing is left to write

The decisions are in `designs/rollout.md`. `apply.labelled` keeps a set that is always wanted whole. This one is for
sets that users write: its inventory survives a restart, because an object that the manifests no longer contain must
still be known.
"""
