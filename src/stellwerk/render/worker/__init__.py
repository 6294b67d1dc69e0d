"""Requests into objects, in native processes.

renderer       answers a request from the cache or by a worker
render_cache   answers that may be used again
pool           a few workers, shared fairly among tenants
worker         one native process: bounded, confined, replaced
protocol       frames of JSON between both                       pure
"""
