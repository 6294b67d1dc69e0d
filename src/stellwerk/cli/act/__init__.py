"""The work of the verbs that change objects; `verbs/act` declares them.

reconcile     requests a reconcile, and waits for its end
suspension    suspends and resumes
wait          waits for a state that the user names
operator_verbs  what operators add for their users' daily tasks
adopt         compares what an original looks after, and stops the original
unstick       explains a deletion that does not end, and forces it
"""
