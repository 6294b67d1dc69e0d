"""What the lifecycle manager adds to the command line: `stellwerk module ...`.

declared   the words of the verbs
chosen     the Kyma that is meant, and its catalog
modules    what is shown of its modules, and what changes
"""
