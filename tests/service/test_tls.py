"""A service over TLS: clients trust an authority, show certificates where these are asked for, and hear of clocks."""

from pathlib import Path

import pytest

import auxo
from auxo.core.types import ROOT
from auxo.service.http_server import Tls
from auxo.service.link import ServiceAway, ServiceRefused
from auxo.service.session import Participation
from tests.service.certificates import Authority
from tests.service.one_process import TOKENS, OneProcess, one_process, small_server
from tests.service.test_connect import QUICK, X, Y, loss, train


def alone() -> OneProcess:
    return OneProcess(small_server(participants=1), participants=1)


def test_a_client_trusts_the_authority_that_it_is_given_and_no_other(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with one_process(alone(), tls=Tls(*authority.signs("service"))) as url:
        assert url.startswith("https://")
        with auxo.connect(url, TOKENS.issue("c0"), ca=authority.file, patience=QUICK) as session:
            assert session.take_part(loss, train, X, Y) == Participation(ROOT, 1, counted=True)
        for ca in (None, Authority(tmp_path, "another").file):
            other = auxo.connect(url, TOKENS.issue("c0"), ca=ca, patience=QUICK)
            with other, pytest.raises(ServiceRefused, match="give the certificate that signs it as ca"):
                other.take_part(loss, train, X, Y)


@pytest.mark.fault(27)
@pytest.mark.parametrize("from_day", [-9, 9])
def test_a_certificate_of_another_time_is_told_with_the_clock(tmp_path: Path, from_day: int) -> None:
    authority = Authority(tmp_path)
    with one_process(alone(), tls=Tls(*authority.signs("service", from_day))) as url:
        session = auxo.connect(url, TOKENS.issue("c0"), ca=authority.file, patience=QUICK)
        with session, pytest.raises(ServiceRefused, match="clock skew"):
            session.take_part(loss, train, X, Y)


def test_a_service_that_asks_for_certificates_lets_nobody_in_without_one(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = Tls(*authority.signs("service"), client_ca=authority.file)
    own, forged = authority.signs("client"), Authority(tmp_path, "another").signs("stranger")
    with one_process(alone(), tls=tls) as url:
        with auxo.connect(url, TOKENS.issue("c0"), ca=authority.file, certificate=own, patience=QUICK) as session:
            assert session.take_part(loss, train, X, Y) == Participation(ROOT, 1, counted=True)
        for shown in (None, forged):
            other = auxo.connect(url, TOKENS.issue("c0"), ca=authority.file, certificate=shown, patience=QUICK)
            with other, pytest.raises(ServiceAway):
                other.take_part(loss, train, X, Y)
