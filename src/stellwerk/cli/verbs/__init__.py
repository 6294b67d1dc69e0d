"""Declarations of the verbs: options, arguments and help texts, for `cli/verb_tree`. Light to import.

look        show the state of a cluster
act         change objects
releases    releases of `clm`
local       the local system, and the installation of operators; run starts one
operators   what operators add for their users' daily tasks
help        about stellwerk itself
"""
