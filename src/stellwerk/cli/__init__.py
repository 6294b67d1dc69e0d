"""The command line `stellwerk`.

main          the entry point; verb_tree: the table of verbs, reference: the page about them
verbs         one module for each verb
local         the local system: operators as processes
releases      releases of `clm`, and dry runs
objects       objects as verbs see them: connection, health, findings, trees
arguments     options and arguments that verbs share
completion    what a shell offers when TAB is pressed
shell         settings, printing, errors
kinds         the kinds of the product and the operators that own them
"""
