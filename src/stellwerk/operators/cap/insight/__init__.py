"""What verbs of the command line ask about objects of the CAP Operator.

why           findings, from an application down to the Job or pod that is the root cause
by_kind       all of it, by kind
help_topics   the texts of `stellwerk explain`
facts         the state that each reason belongs to
"""
