"""What the next passes over an object would create, change or delete, for `stellwerk diff`.

The operator's own pure functions decide; only the reading differs, because a user asks once, has no caches, and has
rights of its own. Steps that only show progress in the status are taken in memory, so that the preview shows the next
writes that matter.

application  CAPApplication
version      CAPApplicationVersion
tenant       CAPTenant
operation    CAPTenantOperation
domain       Domain and ClusterDomain
surroundings what is around an object
"""
