"""What declarations of verbs share.

verb              the declaration of a verb
options           options, and the names of operators
object_argument   objects
"""
