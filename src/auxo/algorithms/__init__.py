"""Federated algorithms: who trains what, and what is learned from the answers.

In it: Auxo (a package of its own), the paper's variant, the base, the oracle and the rivals; none knows another.
"""
