"""What to write or delete next, and what to wait for. Pure.

plan_input             everything that a plan depends on
stage                  actions that can be done now, and the objects to wait for
actions                what can be done to an object
inventory_update       wanted objects against the inventory: which are new, which are to be deleted
plan_apply             the next writes, in waves
plan_object            what one object needs
readiness_grace        readiness of an object that was written a moment ago
plan_prune             the next deletions
plan_delete_hooks      the next step of a set that is being deleted and has delete hooks
"""
