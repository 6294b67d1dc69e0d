"""What declarations of verbs share.

verb              the declaration of a verb
options           options
object_argument   objects
operator_names    operators
"""
