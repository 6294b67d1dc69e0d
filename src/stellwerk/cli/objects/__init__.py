"""Objects as verbs see them.

cluster           the connection of one call; errors of the API server become messages for the user
health            ready, in progress or failed, for every kind
unreadable        objects with fields that their kind does not allow
object_summary    health and diagnosis of one object; findings prints them, wait_result reports them after a wait
object_tree       the owners and dependents of an object; graph draws them
object_actions    the patches of `reconcile`, `suspend` and `resume`; wait_for waits for their effect
operator_liveness whether the processes of operators answer; webhook_calls asks the servers of admission webhooks
served_addresses  the addresses of the processes of the local system
check_rules       what `stellwerk check` examines; installations finds what `stellwerk install` has applied
previews          what an operator would apply, for `render`, `values` and `diff`
"""
