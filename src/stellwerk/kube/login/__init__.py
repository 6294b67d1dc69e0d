"""Which API server a client calls, and with which credentials.

config           kubeconfig files, and the service account of a pod
auth             credentials that change while the process runs
private_keys     limits for the private keys of foreign kubeconfigs
proxy_settings   the proxy that the environment names (pure)
"""
