"""CAPApplicationVersion: one released version and its workloads.

plan           what a version needs next, and what its status shows
reconcile      carries it out
resources      Deployments, Services, network policies and further objects of workloads
destinations   the variable with which a router finds other workloads
content        content jobs, one after the other
rollout        gives Deployments new credentials when those of their services have changed
order          which version is the newest
monitor        looks now and then for versions that are not used any more
monitoring     which versions are not, and what is asked about them
prometheus     questions to Prometheus
children       creates objects that do not exist, and leaves alone those that do
"""
