"""The reconciler of Component.

reconcile                runs passes, and reports what becomes of them
component_pass           one pass, from the references to the status
deployment               files into objects, and objects into the target
status_plan              the next status                                      pure
delete_hooks             delete hooks of a Component
self_management_check    refuses a Component that manages itself              pure
status_size_limit        keeps the status below the limit of the API server   pure
unknown_kinds            kinds that the target does not serve
weights                  how many bytes of large passes are in memory
"""
