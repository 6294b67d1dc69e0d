"""What other parts of the product ask about a CAPOperator.

by_kind       all of it, by kind, and how a user acts on it
why           findings, down to the pods
help_topics   the texts of `help/`
preview       what the next pass would change
"""
