"""An authority of its own, and certificates that it signs."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

NOW = datetime.datetime.now(datetime.UTC)
_HERE = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]


class Authority:
    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self.file = folder / f"{name}.pem"
        made = self._builder(self._name, self._key, 0).add_extension(x509.BasicConstraints(True, 0), critical=True)
        uses = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        known = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        signed = made.add_extension(uses, critical=True).add_extension(known, critical=False)
        self.file.write_bytes(signed.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def signs(self, name: str, from_day: int = 0) -> tuple[Path, Path]:
        """Return files with a certificate that holds for two days, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        known = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = self._builder(_named(name), key, from_day).add_extension(
            x509.SubjectAlternativeName(_HERE), critical=False
        )
        signed = made.add_extension(known, critical=False).sign(self._key, hashes.SHA256())
        files = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        files[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return files

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, from_day: int) -> x509.CertificateBuilder:
        begin = NOW + datetime.timedelta(days=from_day, minutes=-5)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + datetime.timedelta(days=2))
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
