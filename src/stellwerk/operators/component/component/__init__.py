"""The reconciler of Component.

reconcile                runs passes, and reports what becomes of them
component_pass           one pass, from the references to the status
deployment               files into objects, and objects into the target
status_plan              the next status                                      pure
delete_hooks             delete hooks of a Component
set_checks               what keeps a set from being applied                  pure
missing_kinds            who failed for want of a kind
weights                  how many bytes of large passes are in memory
"""
