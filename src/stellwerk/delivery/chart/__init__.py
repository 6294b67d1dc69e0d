"""How operators describe their part of the Helm chart; `delivery.helm_chart` makes the chart of it.

values       values of the chart: those of all pods and of the whole chart, and how others are declared
part         the place of a process in the chart
readme       the README, with the table of the values
"""
