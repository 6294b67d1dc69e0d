"""The terminal side of a call: what the user chose, and how results and errors are printed.

settings         the options of one call as a value, and the streams for results and messages
closed_streams   streams without a reader, and those that the caller has closed
login            the kubeconfig of a call
errors           failures with cause, next step and exit code; error_reports makes them from other exceptions
text             columns, colours and escapes
output           objects in every format of `-o`; jsonpath, field_diff: what it prints with
progress_line    the line that changes while a verb waits
confirm          the question before a deletion
own_version      the version of this program
"""
