"""CAP Operator: runs multi-tenant CAP applications.

api             all kinds, as CustomResourceDefinitions; kinds: each of them
operator        the operator as a value; settings, rights and installation are its parts
metrics         what it counts, under the names of the original; log_fields: what its log lines show
controllers     what runs: controllers and caches, added to a manager; watches: caches, and which keys wake
collections     what passes that decide by steps may read and write
chart           its part of the Helm chart
variables       how environment variables become settings
names           labels, annotations and finalizers, and the hashes in them; reasons: those of conditions and Events
preparation     finalizer, owner, labels and annotations of every object
requests        the answer to a request to look at an object now; kstatus: Stalled or Reconciling, by state and failure
retries         how often failed Jobs run again
pods            pods of workloads, and the credentials that they read
duplicates      tenants with one id, of which one acts
hashed_objects  objects that carry a hash of what they should be
application     CAPApplication
version         CAPApplicationVersion
tenant          CAPTenant
operation       CAPTenantOperation
domain          Domain and ClusterDomain
routing         how requests of tenants reach workloads: objects of Istio
verbs           what it adds to the command line
insight         what verbs of the command line ask; help: the texts about reasons
webhooks        which writes of users are refused; subscription: the server that turns subscriptions into tenants
"""
