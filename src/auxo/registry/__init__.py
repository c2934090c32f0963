"""Parts found by name, built in or from a file of the user's own."""
