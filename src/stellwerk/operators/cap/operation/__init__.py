"""CAPTenantOperation: one run of Jobs for a tenant.

reconcile    carries operations out
plan         what an operation needs next, and what its status shows
jobs         which Jobs an operation consists of, and what they are
"""
