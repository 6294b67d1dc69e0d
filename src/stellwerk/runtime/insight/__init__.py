"""What an operator reports about its objects, for commands and reference pages.

diagnosis         why an object is not ready
related_objects   which objects belong to a custom resource
reason_catalog    the reasons of conditions, and what they mean
help_topics       topics of `stellwerk explain`
help_files        both, read from Markdown files of an operator
"""
