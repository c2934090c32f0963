"""A Flower federation on this machine alone: SuperLink and SuperNodes as processes, with TLS and node keys."""

from loopback.federation import FederationError, LoopbackFederation, Node, RunStatus

__all__ = ["FederationError", "LoopbackFederation", "Node", "RunStatus"]
