"""Methods exactly as their papers print them. The main path needs none."""
