"""A process from its start to its end.

process    login, leader election, probes, metrics and traces around a manager
manager    starts controllers and caches in order, and stops them in reverse
leader     leader election with a Lease, and the fence before every write
operator   the short way to an operator of one kind
"""
