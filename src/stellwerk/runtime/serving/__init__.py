"""HTTP servers of a process.

http               the server
http_connections   one connection, and what it may cost
http_messages      requests, answers and refusals (pure)
routes             which handler a request is for (pure)
crowd              which connection is closed when there are too many
unread_answers     which answers are given up when clients leave too much unread
shares             places of which each claimant has a share
rate_limit         how often each client may ask
health             liveness and readiness probes
webhook            admission webhooks
metrics_auth       who may read the metrics: the API server decides
tls                certificates that a server presents
"""
