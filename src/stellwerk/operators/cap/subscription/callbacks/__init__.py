"""What registries were promised: a callback when a tenant is provisioned or gone.

promise     a promise as the cluster stores it, and when it is due (pure)
answer      the answer that is sent (pure)
registry    how an answer is delivered
outputs     reads the outputs of a tenant's Jobs, for one answer at a time
reconcile   the passes over promises
report      what is shown of promises that were given up (pure)
metrics     what is counted
"""
