"""Completion in PowerShell, which click does not know.

The shell hands over the words up to the cursor and the one that is being typed, in two environment variables; it is
answered with a line for each proposal: value, a tab, its description. Everything that can fail is caught on the
shell's side too, for a prompt is no place for messages.
"""

from __future__ import annotations

import os

from click.shell_completion import CompletionItem, ShellComplete, add_completion_class

NAME = "powershell"

_SCRIPT = """\
Register-ArgumentCompleter -Native -CommandName %(prog_name)s -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = $commandAst.CommandElements |
        Where-Object { $_.Extent.StartOffset -lt $cursorPosition } |
        ForEach-Object { if ($null -ne $_.Value) { $_.Value } else { $_.Extent.Text } }
    $env:COMP_WORDS = $words -join "`n"
    $env:COMP_INCOMPLETE = $wordToComplete
    $env:%(complete_var)s = "powershell_complete"
    try {
        %(prog_name)s 2>$null | Where-Object { $_ } | ForEach-Object {
            $value, $description = $_ -split "`t", 2
            if (-not $description) { $description = $value }
            [System.Management.Automation.CompletionResult]::new($value, $value, "ParameterValue", $description)
        }
    } catch {
    } finally {
        Remove-Item Env:COMP_WORDS, Env:COMP_INCOMPLETE, Env:%(complete_var)s -ErrorAction SilentlyContinue
    }
}
"""


class PowerShellComplete(ShellComplete):
    """PowerShell's side of click's completion."""

    name = NAME
    source_template = _SCRIPT

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is typed, without the program's name, and that one."""
        words = [word for word in os.environ.get("COMP_WORDS", "").split("\n") if word][1:]
        incomplete = os.environ.get("COMP_INCOMPLETE", "")
        if incomplete and words and words[-1] == incomplete:
            words.pop()
        return words, incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """One line of the answer."""
        return f"{item.value}\t{item.help}" if item.help else str(item.value)


def register() -> None:
    """Make click know it."""
    add_completion_class(PowerShellComplete)
