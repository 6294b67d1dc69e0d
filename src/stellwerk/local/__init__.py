"""A real Kubernetes on this machine: etcd, API server, controller manager, scheduler and pod runner, started by us.

It serves `stellwerk up` and the tests with the same code. It knows no operator: a caller that wants one next to the
control plane starts it as a companion (`LocalCluster.start_companion`), and `down` ends it with the rest.

Importing this package is cheap; cryptography and the like are imported where they are needed.
"""
