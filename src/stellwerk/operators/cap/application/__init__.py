"""CAPApplication: an application and its BTP services.

reconcile        keeps applications consistent
plan             what an application needs next, and what its status shows
inline_domains   domains that are written into an application become objects
progress         shows how far tenants are once a second
refusals         tenants whose change the API server refuses
staying          tenants that do not follow to a lower version than they have
waves            which tenants follow to a new version, and when
exposures        subdomains under which workloads are reached without a tenant
"""
