"""CAPTenantOperation: one run of Jobs for a tenant.

steps    which Jobs an operation consists of
jobs     the Job of a step
"""
