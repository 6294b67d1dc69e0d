"""What verbs of the command line ask about a BtpOperator.

why                findings, down to the root cause
related_objects    the BtpOperator of an object
preview            what the next reconcile would change
actions            what a user may request
by_kind            all of it, by kind
help_topics        the texts of `stellwerk explain`
monitoring         its own alerts and panels
"""
