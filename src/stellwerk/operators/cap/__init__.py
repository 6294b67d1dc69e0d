"""CAP Operator: runs multi-tenant CAP applications.

api             all kinds, as CustomResourceDefinitions: api_application, api_version, api_tenant, api_domain; and
                api_status, what their statuses share
operator        the operator as a value; settings, rights and installation are its parts
metrics         what it counts, under the names of the original
controllers     what runs: controllers and caches, added to a manager; watches: caches, and which keys wake
names           labels, annotations and finalizers, and the hashes in them; reasons: those of conditions and Events
preparation     finalizer, owner, labels and annotations of every object; semantic_version: the order of versions
credentials     binding Secrets, and the Secrets with credentials that are made of them
workload_pods   pods of workloads; vcap: the credentials of services as workloads read them
last_words      how the containers of a failed Job ended
hashed_objects  objects that carry a hash of what they should be
application     CAPApplication
version         CAPApplicationVersion
tenant          CAPTenant
operation       CAPTenantOperation
domain          Domain and ClusterDomain
routing         how requests of tenants reach workloads: objects of Istio
insight         what verbs of the command line ask; help: the texts about reasons
webhooks        which writes of users are refused; subscription: the server that turns subscriptions into tenants
"""
