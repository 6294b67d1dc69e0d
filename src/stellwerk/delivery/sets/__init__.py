"""What operators share whose sets of objects have an inventory in the status of a custom resource.

set_pass           one pass over a set: checkpoints, ordered apply, readiness, deletion with its guards
set_status         what the status of such a kind becomes, step by step (pure)
set_view           the objects of one set, as watches or single reads show them
set_reports        which objects a set waits for, in a few words
workload_causes    why a workload of a set is not ready
holds              what an object waits for without an end of its own
unsettled_objects  the objects that a set waits for, as a user of `why` sees them
served_apis        what a cluster serves, as templates see it, and whether that may have changed
inventory_kinship  which objects belong to such a kind, and to which one an object belongs
cluster_identity   the uid of a cluster, which is a part of the owner's id on each object
inventory_status   the fields that the statuses of such kinds share
pass_report        what a pass reports: the state and the conditions that follow from a reason
"""
