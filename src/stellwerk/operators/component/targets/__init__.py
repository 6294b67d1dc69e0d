"""The cluster and the identity that a Component is applied with.

targets                clients, caches and rollouts for each cluster and identity
lookups                what templates read from the target
abandon_remote         deletion of a Component whose cluster is gone
tenancy                the identity under strict tenancy
seals                  records of the status that others cannot forge; seal_key: their key
privileges             a warning for an operator with more rights than it needs
"""
