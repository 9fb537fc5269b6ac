"""Finds wasted work: attempts that failed, were killed or did again what had been done."""
