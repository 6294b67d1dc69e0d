"""What operators and releases share above `runtime`, `apply` and `render`.

operator_spec        an operator and its servers as values: what the rest of the product knows about them
installation         what a cluster needs before a process starts
deployed_process     what a Deployment runs, with which flags and variables
chart                how operators describe their part of the Helm chart
monitoring           alert rules, dashboards and Busola pages of an operator
insight              what an operator knows about objects of its kinds: diagnosis, actions, preview
operator_verbs       verbs that an operator adds to the command line
verb_plans           what such a verb is asked, and what it comes to
rendering            the renderer of an operator process
watched_objects      the objects of all sets in one cluster, by owner, as watches show them
finished_jobs        Jobs that Kubernetes removed after their success
step_kind            a kind that decides by steps, as one value that process, rights, `diff` and `why` read
step_rights          the rights of such a kind, from what its passes ask and write
ready_steps          steps of a kind with the condition Ready, and objects that it keeps
server_addresses     the addresses of a server, by which it is counted
template_lookup      objects that a template reads from a cluster
forced_deletion      the deletion of an object without the operator that keeps it by a finalizer
step_preview         what a kind that decides by steps would write next, by its own decision
reconcile_request    the annotation by which a user requests a reconcile, and its answer in the status
sets                 sets of objects with an inventory: view, reports, what the cluster serves
helm_chart           the files of the Helm chart that are made from the operators
grants               the rights of an operator, each with its purpose
limited_grants       the same for a process that works on some namespaces only
rights_page          the reference page of these rights and of the roles that grant them
workloads            findings about a Deployment, StatefulSet or DaemonSet that is not ready
"""
