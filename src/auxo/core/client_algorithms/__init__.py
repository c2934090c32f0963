"""Client algorithms: what a participant's local training is besides descending its own loss."""

from auxo.core.client_algorithms.client_algorithm import ClientAlgorithm, LocalSgd
from auxo.core.client_algorithms.fedprox import FedProx

__all__ = ["ClientAlgorithm", "FedProx", "LocalSgd"]
