"""From sources to objects: charts, kustomizations, templates, substitution, decryption.

    sources          files from URLs                                                 calls the outside
    files            archives and folders as files in memory, known by their digest
    request          what the renderer is asked for, and what it answers
    worker           requests into objects, in native processes                      starts processes
    binary           where the native program is
    bounded_cache    values in memory, up to a weight                                pure
    blocking_calls   blocking calls in threads of their own
    errors           what can go wrong

An operator holds one `Downloads` and one `Renderer`, and closes both.
"""
