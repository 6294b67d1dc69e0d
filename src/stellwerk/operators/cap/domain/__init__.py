"""Domain and ClusterDomain: where tenants are reached."""
