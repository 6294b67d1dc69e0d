"""What a process knows of a cluster.

informer           keeps a store equal to the cluster, and passes on what changed
joined_informer    the informers of some namespaces as one
namespace_presence suspends watches in namespaces that do not exist
shared_strings     keeps each repeated string of cached objects once
cache_budget       how many bytes cached objects may take, by namespace and in all
store              an indexed cache of objects (pure)
definitions        has watches of absent kinds wait for the definition of their kind
clusters           one cluster: its client, and the informers that readers share
remote_clusters    clusters of kubeconfigs: opened on demand, closed when idle, bounded
cluster_fingerprint what distinguishes a cluster from all others
read_your_writes   waits until a cache has seen a write of this process
common_history     has all caches list again when the cluster was restored from a backup
cache_audit        compares a cache with the API server
"""
