"""CAPTenant: one subscriber of an application.

plan    what a tenant needs next, and what its status shows
"""
