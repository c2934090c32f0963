"""Files as every room reads and writes them: whole or not at all, with errors that name the remedy."""
