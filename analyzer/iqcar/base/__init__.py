"""What everybody may use: files, limits of lists, words for numbers."""
