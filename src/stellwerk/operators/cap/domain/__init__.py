"""Domain and ClusterDomain: certificates, gateways, network policies and DNS names for the hosts of tenants.

reasons       reasons of conditions and Events
errors        what prevents a domain from becoming Ready
hosts         whose a host is                                               pure
naming        names, owner ids and labels of a domain's objects                 pure
resources     the objects as they should be, with their hashes                  pure
dns           DNS names, from modes and templates                               pure
ingress       where the ingress gateway is, and the DNS name that leads to it   pure
readiness     what the controllers of certificates and DNS entries report       pure
plan          from what is seen to the next step, and to the objects            pure
pace          how often a domain with many DNS entries is looked at
watches       the caches, and which domains a change wakes
writer        applies and deletes objects
reconcile     one pass
controllers   the two controllers, added to a manager
rights        what they may do in a cluster
"""
