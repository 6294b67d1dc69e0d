"""CAP Operator: runs multi-tenant CAP applications.

api             all kinds, as CustomResourceDefinitions: api_application, api_version, api_tenant, api_domain; and
                api_status, what their statuses share
names           labels, annotations and finalizers, and the hashes in them
workload_pods   pods of workloads; vcap: the credentials of services as workloads read them
application     CAPApplication
version         CAPApplicationVersion
tenant          CAPTenant
operation       CAPTenantOperation
domain          Domain and ClusterDomain
subscription    the server that turns subscriptions into tenants
"""
