"""The controller of a kind, and everything that a pass writes.

controller          the worker loop
queue               keys that wait for a worker: priorities, fairness, back-off
step                what a pass decides, as a value
executor            performs the steps of a pass
loads               loads what passes ask for that needs a request
outcome             what a pass can come to
memo                what a reconciler remembers about each object
status_writer       the status at the end of a pass
status_checkpoint   the status in the middle of a pass
events              Events, without waiting for them
event_queue         Events that wait to be written: bounded, namespaces by turns, warnings first
secrecy             the secret words of a pass, removed from what it writes
finalizer           adds and removes the finalizer of an operator
jobs                Jobs that run one after the other as the steps of an operation
server_concurrency  how many passes of one tenant work with one server at the same time
periodic            work at intervals while this process leads
"""
