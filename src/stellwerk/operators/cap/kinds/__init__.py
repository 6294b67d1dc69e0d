"""The kinds of the CAP Operator, each with its CustomResourceDefinition.

application  CAPApplication
version      CAPApplicationVersion
tenant       CAPTenant, CAPTenantOperation and CAPTenantOutput
domain       Domain and ClusterDomain
status       what their statuses share
"""
