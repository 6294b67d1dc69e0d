"""What other parts of the product ask about a CAPOperator.

by_kind           all of it, by kind, and how a user acts on it
help_topics       the texts of `help/`
related_objects   what belongs to it, and to which one an object belongs
preview           what the next pass would change
"""
