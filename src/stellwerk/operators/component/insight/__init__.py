"""What verbs of the command line ask about a Component.

why                findings, down to the root cause
remedies           the command that a message asks for
preview            what the next reconcile would change
by_kind            what a user may request, the Component of an object, and all of it by kind
help_topics        the texts of `stellwerk explain`
monitoring         its own alerts and panels
"""
