"""Pages and a JSON API over folders of event logs."""
