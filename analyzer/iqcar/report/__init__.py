"""What a person or a program reads of a diagnosis; nothing is computed here but its layout."""
