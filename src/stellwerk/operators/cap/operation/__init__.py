"""CAPTenantOperation: one run of jobs for a tenant."""
