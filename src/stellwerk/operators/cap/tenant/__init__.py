"""CAPTenant: one subscriber of an application.

reconcile             brings tenants to their versions by operations
plan                  what a tenant needs next, and what its status shows
networking            the VirtualService of a tenant
subscription_objects  the provider's tenant, and payloads that no registry has sent
"""
