"""What a shell offers when TAB is pressed. Light to import: no HTTP library and no asyncio.

completers    the words for an argument or option
lookup        one short request for the names of objects
powershell    the script for PowerShell
"""
