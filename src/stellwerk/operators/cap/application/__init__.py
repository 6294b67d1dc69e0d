"""CAPApplication: an application and its BTP services.

reconcile    keeps applications consistent
plan         what an application needs next, and what its status shows
waves        which tenants follow to a new version, and when
exposures    subdomains under which workloads are reached without a tenant
"""
