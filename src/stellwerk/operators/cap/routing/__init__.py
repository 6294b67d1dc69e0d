"""How requests of tenants reach the workloads of a version, as Istio's kinds. Pure.

objects            VirtualServices and DestinationRules as whole objects
virtual_services   hosts, gateways and routes of tenants and service exposures, with version affinity
headers            request and response headers that annotations add
stickiness         which pod of a workload a client reaches
targets            routers, exposed services and hosts, from versions, applications and domains
"""
