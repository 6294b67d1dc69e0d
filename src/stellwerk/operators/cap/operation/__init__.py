"""CAPTenantOperation: one run of Jobs for a tenant.

decide       what an operation needs next
around       what it asks for
ingredients  what its Jobs are made from
plan         what its status shows
jobs         which Jobs an operation consists of, and what they are
"""
