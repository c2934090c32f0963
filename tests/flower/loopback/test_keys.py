"""Certificates and keys of a federation: what they are good for, and who may read them."""

import ssl
import threading
from pathlib import Path

import pytest

pytest.importorskip("flwr")

import socket

from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key
from loopback.keys import make_certificates, make_node_key


def test_whoever_trusts_the_authority_can_talk_to_loopback_and_nobody_else_can(tmp_path: Path) -> None:
    made = make_certificates(tmp_path / "certificates")
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(made.certificate, made.key)
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]

        def serve() -> None:
            for _ in range(2):
                plain, _ = door.accept()
                try:
                    with served.wrap_socket(plain, server_side=True) as safe:
                        safe.sendall(b"hello")
                except OSError:
                    plain.close()

        thread = threading.Thread(target=serve)
        thread.start()
        trusting = ssl.create_default_context(cafile=str(made.authority))
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
            trusting.wrap_socket(plain, server_hostname="127.0.0.1") as safe,
        ):
            assert safe.recv(5) == b"hello"
        with socket.create_connection(("127.0.0.1", port), timeout=10) as plain:
            stranger = ssl.create_default_context()
            with pytest.raises(ssl.SSLCertVerificationError):
                stranger.wrap_socket(plain, server_hostname="127.0.0.1")
        thread.join(10)


def test_private_keys_are_for_their_owner_alone_and_fit_the_public_ones(tmp_path: Path) -> None:
    certificates, pair = make_certificates(tmp_path), make_node_key(tmp_path / "keys" / "node-0")
    for secret in (certificates.key, pair.private):
        assert secret.stat().st_mode & 0o077 == 0
    private = load_ssh_private_key(pair.private.read_bytes(), password=None)
    public = load_ssh_public_key(pair.public.read_bytes())
    assert private.public_key() == public


def test_every_federation_has_keys_of_its_own(tmp_path: Path) -> None:
    assert make_node_key(tmp_path / "a").public.read_bytes() != make_node_key(tmp_path / "b").public.read_bytes()
