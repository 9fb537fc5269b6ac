"""What the plugin recorded: task records with interval profiles, host samples, scheduler pools."""
