"""The clients and their data: federated columns, built-in populations, planted groups."""
