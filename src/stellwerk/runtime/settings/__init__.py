"""Settings of a process: tables, command lines, and parsers.

settings        settings that every process has
flags           a table of settings as options of the command line
go_flags        command lines as Go programs read them (pure)
process_flags   the options of every operator process
parsers         text as values: flags, environment, keys of a ConfigMap (pure)
"""
