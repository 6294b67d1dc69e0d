"""The command line `stellwerk`.

main          the entry point; call: one call, from its arguments to the exit code
own_operator  the same with one more operator, which a program of its own defines
verb_tree     the table of verbs; reference: the page about them
verbs         declares the verbs: options, arguments, help texts
look          the work of the verbs that show the state of a cluster
act           the work of the verbs that change objects
releases      the work of the verbs for releases of `clm`, and dry runs
local         the work of the verbs for the local system: operators as processes
help          the work of the verbs about stellwerk itself
objects       objects as verbs see them: connection, health, findings, trees
arguments     what declarations share: verbs, options and arguments
completion    what a shell offers when TAB is pressed
shell         settings, printing, errors
kinds         the kinds of the product and the operators that own them

A declaration is imported by completion and help, so it imports nothing heavy; it names the function that does the work
(see `arguments/verb`). The modules with the work import what they need at the top.
"""
