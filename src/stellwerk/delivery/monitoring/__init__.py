"""Alert rules, dashboards and Busola pages: what a platform gets to watch the operators with.

alerts        the alerts that all operators share, and the classes to describe more
panels        panels of dashboards as values, and the Grafana dashboard that they become
dashboards    the overview and the dashboard of an operator
busola        the pages of a kind in the Kyma dashboard
objects       all of it as objects, for charts and files
runbook       a section of the runbook for each alert, in runbook.md
"""
