"""The engine: turns changes into calls of a reconciler. Knows no kind by meaning.

    reconciler      what the author of an operator must know: a reconciler, its answers and its failures
    process         starts and ends a process: manager, leader election, the short way to an operator
    access          which rights the process lacks
    serving         HTTP servers: probes, metrics, webhooks
    control         the worker loop of a kind: queue, status, Events, finalizers
    certificates    certificates and keys, and their store
    reading         what a pass may ask, and what a changed answer wakes
    cache           informers, and the stores that they fill
    supervision     tasks that report and restart, back-off, watchdogs
    settings        tables of settings, flags, and their parsers
    insight         what `why`, `explain` and the reference pages are given
    telemetry       logs, metrics, traces
    conditions      arithmetic of conditions (pure)
    clock           time, which a test can control

A later folder in `process > access | serving > control | certificates > reading > cache > supervision > telemetry`
never imports an earlier one.
"""
