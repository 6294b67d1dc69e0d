"""What declarations of verbs share: the verb itself (verb), options (options), and objects (object_argument)."""
