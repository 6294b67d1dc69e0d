"""What tests, benchmarks and the demo share: a cluster, time, waiting, and servers that behave badly.

cluster     the clusters of a test session; cluster_cleanup takes them down when the session is gone
clock       a clock that a test moves
eventually  waiting for a condition, not for a time
processes   operators as processes that can be killed
servers     servers of other projects on loopback: artifacts, registries, admission webhooks, the service broker
faults      the proxy between an operator and its API server
scenarios   operators in the process of the test, crash sweeps, comparable ends
steps       worlds of values for kinds that decide by steps, and what holds for all of these kinds
largest_objects   the largest objects of a kind that an API server takes
checks      what holds at the end of every test: no stall, no secret in an output, no unexpected exception
"""
