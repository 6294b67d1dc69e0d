"""What verbs of the command line ask about objects of the CAP Operator.

why           findings, from an application down to the Job or pod that is the root cause
causes        what an object reports about itself, and the objects that it comes from
related_objects  what belongs to a domain, and to which domain an object belongs
previews      what the next passes over an object would write
by_kind       all of it, by kind
help_topics   the texts of `stellwerk explain`
monitoring    alerts and panels of its own
"""
