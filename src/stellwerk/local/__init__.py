"""A real Kubernetes on this machine: etcd, API server, controller manager, scheduler and pod runner, started by us.

It serves `stellwerk up` and the tests with the same code. It knows no operator: a caller that wants one next to the
control plane starts it as a companion (`LocalCluster.start_companion`), and `down` ends it with the rest.

cluster     a local cluster: up, down, stop, companions
startup     one start: what is missing is started, in parallel where it can be
last_words  why a component ended, from its log
components  the flags of each component
folder      the content of a cluster's folder; certs: its certificates
volumes     the provisioner of PersistentVolumes; stages: how the pod runner plays pods and nodes
wire        the few requests of a start
errors      what can go wrong, with the next step
build       binaries and definitions: found in the cache, or built
__main__    the control plane by hand
host        processes, ports, locks, names and private files of this machine

Importing this package is cheap; cryptography and the like are imported where they are needed.
"""
