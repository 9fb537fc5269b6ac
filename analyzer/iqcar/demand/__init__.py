"""What tasks need of a resource and what each host can give: capacities."""
