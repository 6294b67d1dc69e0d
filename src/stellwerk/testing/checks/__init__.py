"""What holds at the end of every test.

loop_stalls       nothing blocked the event loop
secret_leak_scan  no output has the value of a Secret
surprises         unexpected exceptions, which a border must contain
"""
