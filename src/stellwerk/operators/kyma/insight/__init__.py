"""What people see of Kymas and their modules: why, tree, trace, status, unstick, diff."""
