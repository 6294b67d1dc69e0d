"""CAPTenant: one subscriber of an application.

decide                what a tenant needs next, as a step; routes: what its VirtualService needs
plan                  what a tenant and its operations are written with, and what a tenant shows
networking            the VirtualService of a tenant as it should be
subscription_objects  the provider's tenant, and payloads that no registry has sent
"""
