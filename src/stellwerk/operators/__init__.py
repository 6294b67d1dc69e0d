"""The operators. They never import each other, and have the same inner shape.

operator      its OperatorSpec: what the rest of the product knows about it
controllers   what runs: controllers, caches and servers; watches: the caches and which keys a change wakes
api           the kinds; settings: what an administrator sets; rights: what the operator may do
installation  what a cluster needs before it starts
reasons       the conditions' reasons with their help; errors: failures as reason and message
insight       what `why`, `trace`, `diff`, `explain` and other verbs ask
KIND          a folder for each kind: its reconciler, plan and resources

What more than one operator needs, and no lower folder has, is in `stellwerk.delivery`.
"""
