"""Federated algorithms: who trains what, and what is learned from the answers."""
