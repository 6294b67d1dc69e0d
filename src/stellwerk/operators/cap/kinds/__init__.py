"""The kinds of the CAP Operator, each with its CustomResourceDefinition.

application  CAPApplication
version      CAPApplicationVersion
tenant       CAPTenant, CAPTenantOperation and CAPTenantOutput
domain       Domain and ClusterDomain
bounds       how long the lists of a spec may be
references   what messages show about a name that refers to nothing
status       what their statuses share
"""
