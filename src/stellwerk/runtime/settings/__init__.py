"""Settings of a process: tables, command lines, and parsers.

parsers            text as values: flags, environment, keys of a ConfigMap (pure)
go_flags           command lines as Go programs read them (pure)
table              one table of settings: flags, ConfigMap keys, reference page
process_settings   the settings that every operator process has
"""
