"""The cluster and the identity that a Component is applied with.

targets                clients, caches and rollouts for each cluster and identity
cluster_concurrency    how many passes of one tenant work on one cluster at the same time
lookups                what templates read from the target
abandon_remote         deletion of a Component whose cluster is gone
tenancy                the identity under strict tenancy
seals                  records of the status that others cannot forge; seal_key: their key
privileges             a warning for an operator with more rights than it needs
"""
