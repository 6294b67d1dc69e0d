"""Keeps a process alive and responsive.

tasks             tasks that report unexpected exceptions and start again
backoff           the wait after failures in a row (pure)
watchdog          notices when the event loop is blocked
memory_pressure   how near the process is to its memory limit
collector         keeps the pauses of the cycle collector short
"""
