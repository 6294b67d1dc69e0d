"""What verbs share: their options (options), and the argument that names an object (object_argument)."""
