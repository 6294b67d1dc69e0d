"""Access to an API server: typed calls, watches, and the objects they carry. Knows no kind by name.

    types       objects in memory, their identifiers, metadata and errors            pure
    schema      a CustomResourceDefinition from the structs of a kind                pure
    login       which API server, and with which credentials                         reads kubeconfigs
    http        requests and answers over kept connections                           calls the server
    client      typed calls: get, list, watch, apply, patch, delete                  calls the server
    watch       list and watch without an end, for a cache                           calls the server
    yaml        YAML text as JSON values, with the meaning that kubectl gives it     pure
    masking     removes secret words from text                                       pure
    threads     runs computations on large text outside the event loop
    memory_budget   a bound for all answers that are in memory at once                pure
    nested      groups of tasks inside a pass
    concurrency     calls for the members of a wave, side by side

A later folder in `watch > client > http > login > types` never imports an earlier one.
"""
