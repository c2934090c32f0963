"""What is learned: models by name, and how a module is built for the data at hand."""
