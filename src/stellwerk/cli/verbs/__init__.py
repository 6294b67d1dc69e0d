"""The verbs: one module each with an attribute `command`, which `cli/verb_tree.py` loads when the verb is used.

look at objects     get with get_watch, status, why, tree_of, trace, diff, render, values, events, logs,
                    export, instance
act on objects      reconcile, suspend, resume, wait, unstick
releases            apply, delete, releases, template
operators           up, down, run, install, check
help                explain, version, completion
"""
