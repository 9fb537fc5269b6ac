"""What rules would have changed in the recorded run."""
