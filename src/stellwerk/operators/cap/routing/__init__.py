"""How requests of tenants reach the workloads of a version, as Istio's kinds. Pure.

objects            VirtualServices as whole objects
virtual_services   hosts, gateways and routes of tenants and service exposures, with version affinity
headers            request and response headers that annotations add
claims             which VirtualService has a host that several want
targets            routers, Services, hosts and stickiness, from versions, applications and domains
"""
