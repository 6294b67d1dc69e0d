"""CAP Operator: runs multi-tenant CAP applications.

api             all kinds, as CustomResourceDefinitions: api_application, api_version, api_tenant, api_domain; and
                api_status, what their statuses share
application     CAPApplication
version         CAPApplicationVersion
tenant          CAPTenant
operation       CAPTenantOperation
domain          Domain and ClusterDomain
subscription    the server that turns subscriptions into tenants
"""
