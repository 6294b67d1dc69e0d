"""The work of the verbs about stellwerk itself, which `verbs/help` declares: explain, version, completion."""
