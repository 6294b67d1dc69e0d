"""The work of the verbs that show the state of a cluster; `verbs/look` declares them.

objects       get, with get_watch for `-w`; object_list reads and shows the objects, for export and instance, too
one object    status, why, tree, trace, diff, events
components    render, values
operators     check, logs, stats, bundle
"""
