"""CAPTenantOperation: one run of Jobs for a tenant.

reconcile    carries operations out
plan         what an operation needs next, and what its status shows
steps        which Jobs an operation consists of
jobs         the Job of a step
"""
