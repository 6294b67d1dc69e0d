"""What operators and releases share above `runtime`, `apply` and `render`.

watched_objects      the objects of all sets in one cluster, by owner, as watches show them
finished_jobs        Jobs that Kubernetes removed after their success
template_lookup      objects that a template reads from a cluster
reconcile_request    the annotation by which a user requests a reconcile, and its answer in the status
grants               the rights of an operator, each with its purpose
workloads            findings about a Deployment, StatefulSet or DaemonSet that is not ready
"""
