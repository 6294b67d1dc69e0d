"""The kinds of the CAP Operator, each with its CustomResourceDefinition.

application  CAPApplication
version      CAPApplicationVersion
tenant       CAPTenant, CAPTenantOperation and CAPTenantOutput
domain       Domain and ClusterDomain
bounds       how long the lists of a spec may be
status       what their statuses share
"""
