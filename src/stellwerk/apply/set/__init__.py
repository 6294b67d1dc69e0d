"""The engine for sets of objects: applied wave by wave, with policies, and deleted in order.

model              what is wanted, what the inventory records, and strategies for owners
checks             what is asked of the API server before anything is written
plan               what to write or delete next, and what to wait for           pure
executor           the only writer of a set; server_warnings: what the API server warned of
observed_state     what is known of the objects beyond the caches
object_set         the pass: plan and execute until nothing is left to write
untracked_set      the same for a set that keeps no inventory: its owner's marks identify its objects

The decisions are in `designs/rollout.md`. A set that users write keeps an inventory, which survives a restart, because
an object that the manifests no longer contain must still be known. A set that is always wanted whole needs none.
"""
