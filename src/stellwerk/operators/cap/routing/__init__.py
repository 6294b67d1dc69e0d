"""How requests of tenants reach the workloads of a version: specs of Istio's kinds. Pure.

virtual_services   hosts, gateways and routes of tenants and service exposures, with version affinity
headers            request and response headers that annotations add
stickiness         which pod of a workload a client reaches: DestinationRules
"""
