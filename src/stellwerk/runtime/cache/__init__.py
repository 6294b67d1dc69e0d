"""What a process knows of a cluster.

informer           keeps a store equal to the cluster, and passes on what changed
store              an indexed cache of objects (pure)
clusters           one cluster: its client, and the informers that readers share
remote_clusters    clusters of kubeconfigs: opened for their first user, closed after the last, bounded
read_your_writes   waits until a cache has seen a write of this process
cache_audit        compares a cache with the API server
"""
