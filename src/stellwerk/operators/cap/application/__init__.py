"""CAPApplication: an application and its BTP services.

reconcile    keeps applications consistent
plan         what an application needs next, and what its status shows
"""
