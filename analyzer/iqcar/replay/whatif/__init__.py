"""Answer what would have happened to a recorded run if something had been different."""
