"""Who the certificates say one is, and whom they trust."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stellwerk.local import certs


@pytest.fixture
def authority(tmp_path: Path) -> certs.Authority:
    return certs.load_or_create_authority(tmp_path)


def test_the_authority_is_the_same_the_next_time(authority: certs.Authority, tmp_path: Path) -> None:
    assert certs.load_or_create_authority(tmp_path).pem == authority.pem


def test_the_authority_of_a_former_release_has_another_kind_of_key_and_stays(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "former")])
    now = datetime.now(UTC)
    unsigned = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=9))
    former = certs.Authority(unsigned.sign(key, SHA256()), key)
    (tmp_path / "ca.crt").write_bytes(former.pem)
    (tmp_path / "ca.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))

    authority = certs.load_or_create_authority(tmp_path)
    assert authority.pem == former.pem
    issued = x509.load_pem_x509_certificate(authority.client("jane").certificate)
    issued.verify_directly_issued_by(former.certificate)


def test_a_client_is_its_user_in_its_groups(authority: certs.Authority) -> None:
    certificate = x509.load_pem_x509_certificate(authority.client("jane", ["shop", "staff"]).certificate)
    assert [name.value for name in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["jane"]
    groups = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert {name.value for name in groups} == {"shop", "staff"}
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_a_client_may_have_the_long_name_of_a_service_account(authority: certs.Authority) -> None:
    user = "system:serviceaccount:a-namespace-with-a-long-name:an-account-with-a-long-name"
    certificate = x509.load_pem_x509_certificate(authority.client(user, []).certificate)
    with pytest.warns(UserWarning, match="length"):
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    assert [name.value for name in names] == [user]


def test_a_server_is_valid_for_its_address_now(authority: certs.Authority) -> None:
    certificate = x509.load_pem_x509_certificate(authority.server(["127.0.0.1"]).certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.IPAddress) == [ip_address("127.0.0.1")]
    assert certificate.not_valid_before_utc < datetime.now(UTC) < certificate.not_valid_after_utc


def test_a_certificate_is_fresh_only_under_its_own_authority(authority: certs.Authority, tmp_path: Path) -> None:
    file = tmp_path / "server.crt"
    assert not authority.vouches_for(file)
    file.write_bytes(authority.server(["127.0.0.1"]).certificate)
    assert authority.vouches_for(file)
    (tmp_path / "other").mkdir()
    assert not certs.load_or_create_authority(tmp_path / "other").vouches_for(file)


def test_a_client_keeps_its_certificate_until_it_is_another_or_not_good(
    authority: certs.Authority, tmp_path: Path
) -> None:
    file = tmp_path / "jane.pem"
    first = authority.kept_client(file, "jane", ["staff"])
    assert file.read_bytes() == first.certificate + first.key
    assert authority.kept_client(file, "jane", ["staff"]) == first
    promoted = authority.kept_client(file, "jane", ["owners"])
    assert promoted != first
    assert authority.kept_client(file, "jane", ["owners"]) == promoted
    (tmp_path / "other").mkdir()
    other = certs.load_or_create_authority(tmp_path / "other")
    assert other.kept_client(file, "jane", ["owners"]) != promoted
    assert other.vouches_for(file)


@pytest.mark.parametrize("damaged", ["ca.crt", "ca.key"])
def test_a_damaged_authority_is_not_replaced_in_silence(
    authority: certs.Authority, tmp_path: Path, damaged: str
) -> None:
    (tmp_path / damaged).write_text("garbage")
    with pytest.raises(ValueError, match=r"."):
        certs.load_or_create_authority(tmp_path)
    assert authority.pem


def test_private_files_are_private(tmp_path: Path) -> None:
    certs.load_or_create_authority(tmp_path)
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
