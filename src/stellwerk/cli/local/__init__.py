"""The local system: its state (system), its operators (operators) as processes (operator_processes)."""
