"""The DNS names of a domain."""

from __future__ import annotations

import pytest
from tests.unit.cap.domain.given import domain, reference

from stellwerk.operators.cap.domain import dns
from stellwerk.operators.cap.domain.errors import DomainProblem
from stellwerk.operators.cap.domain.reasons import DomainEvent
from stellwerk.operators.cap.domain.resources import DnsRecord
from stellwerk.operators.cap.kinds.domain import DNSTemplate

HOST = "app.example.com"
NOBODY = dns.subdomains(HOST, [])


def custom(*templates: tuple[str, str]) -> object:
    return tuple(DNSTemplate(name=name, target=target) for name, target in templates)


def test_a_subdomain_belongs_to_the_oldest_application_that_has_it() -> None:
    young, old = reference("a", "shop", "one", "two", hour=2), reference("b", "shop", "one", hour=1)
    assigned = dns.subdomains(HOST, [young, old])
    assert {name: owner.key.name for name, owner in assigned.owners.items()} == {"one": "b", "two": "a"}
    refused = (DomainEvent.SubdomainAlreadyInUse, young, "one", "is used by shop/b already")
    assert assigned.refused == (refused,)


@pytest.mark.req("R-401")
@pytest.mark.parametrize("subdomain", ["", "Upper", "a b", "-a", "{{ .domain }}", "a" * 250])
def test_a_subdomain_that_is_no_part_of_a_dns_name_is_left_out(subdomain: str) -> None:
    assigned = dns.subdomains(HOST, [reference("a", "shop", subdomain, "fine")])
    assert [*assigned.owners] == ["fine"]
    assert [(reason, name) for reason, _, name, _ in assigned.refused] == [(DomainEvent.SubdomainInvalid, subdomain)]


def test_a_mode_decides_which_records_there_are() -> None:
    assigned = dns.subdomains(HOST, [reference("a", "shop", "two", "one")])
    assert dns.records(domain(dns_mode="None"), "lb", assigned) == ()
    assert dns.records(domain(dns_mode="Wildcard"), "lb", assigned) == (DnsRecord(f"*.{HOST}", "lb"),)
    assert dns.records(domain(dns_mode="Subdomain"), "lb", assigned) == (
        DnsRecord(f"one.{HOST}", "lb", "uid-a"),
        DnsRecord(f"two.{HOST}", "lb", "uid-a"),
    )


def test_a_template_with_the_subdomain_in_its_name_makes_a_record_for_each_one() -> None:
    templates = custom(("{{.subDomain}}.app.example.com", "a"), (f"fixed.{HOST}", "{{.subDomain}}"))
    owner, assigned = (
        domain(dns_mode="Custom", dns_templates=templates),
        dns.subdomains(HOST, [reference("a", "s", "one")]),
    )
    texts = dns.texts(owner, "lb", assigned.owners)
    assert texts is not None
    assert [row["subDomain"] for row in texts.rows] == ["", "one"]
    executed = [
        {key: text.replace("{{.subDomain}}", row["subDomain"]) or "x" for key, text in texts.templates.items()}
        for row in texts.rows
    ]
    assert dns.custom_records(owner, assigned, executed) == (
        DnsRecord(f"one.{HOST}", "a", "uid-a"),
        DnsRecord(f"fixed.{HOST}", "x"),
    )


@pytest.mark.parametrize(("name", "target"), [("not a name", "lb"), ("a" * 254, "lb"), (HOST, ""), (HOST, "x" * 254)])
def test_a_text_that_is_no_record_is_refused_and_its_template_named(name: str, target: str) -> None:
    owner = domain(dns_mode="Custom", dns_templates=custom(("a", "b")))
    row = {"dnsTemplates[0].name": name, "dnsTemplates[0].target": target}
    with pytest.raises(DomainProblem, match=r"spec.dnsTemplates\[0\] makes"):
        dns.custom_records(owner, NOBODY, [row])


@pytest.mark.req("R-913")
@pytest.mark.parametrize(
    ("name", "is_of_the_domain"),
    [
        (HOST, True),
        (f"*.{HOST}", True),
        (f"a.b.{HOST}", True),
        (f"xn--bcher-kva.{HOST}", True),
        ("victim.example.com", False),
        ("*.example.com", False),
        ("example.com", False),
        ("com", False),
        (f"evil{HOST}", False),
        (f"{HOST}.evil.example.com", False),
        (f"*.*.{HOST}", False),
        (f"a.*.{HOST}", False),
        (f"{HOST}.", False),
        (f"a..{HOST}", False),
        (f".{HOST}", False),
        (f"A.{HOST.upper()}", False),
        (f"b\u00fccher.{HOST}", False),
        (f"a\u3002{HOST}", False),
        (f"evil.com\x00.{HOST}", False),
        (f"evil.com/.{HOST}", False),
        (f"evil.com\n.{HOST}", False),
        (f"a.{HOST}\n", False),
    ],
)
def test_a_record_is_the_domain_or_below_it_by_its_labels_before_and_after_rendering(
    name: str, is_of_the_domain: bool
) -> None:
    owner = domain(dns_mode="Custom", dns_templates=custom((name, "lb")))
    row = {"dnsTemplates[0].name": name, "dnsTemplates[0].target": "lb"}
    if is_of_the_domain:
        assert dns.custom_records(owner, NOBODY, [row]) == (DnsRecord(name, "lb"),)
        assert dns.problem_of_templates(owner) == ""
        return
    with pytest.raises(DomainProblem, match=r"spec.dnsTemplates\[0\] makes"):
        dns.custom_records(owner, NOBODY, [row])
    assert dns.problem_of_templates(owner).startswith("spec.dnsTemplates[0] makes")


def test_two_templates_must_not_lead_one_name_to_two_targets() -> None:
    owner = domain(dns_mode="Custom", dns_templates=custom((HOST, "b"), (HOST, "c")))
    texts = dns.texts(owner, "lb", ())
    assert texts is not None
    with pytest.raises(DomainProblem, match="different targets"):
        dns.custom_records(owner, NOBODY, [dict(texts.templates)])


def test_two_templates_may_lead_one_name_to_one_target_and_the_first_record_counts() -> None:
    owner = domain(
        dns_mode="Custom", dns_templates=custom(("{{.subDomain}}.app.example.com", "lb"), (f"one.{HOST}", "lb"))
    )
    assigned = dns.subdomains(HOST, [reference("a", "shop", "one")])
    labels = ("dnsTemplates[0].name", "dnsTemplates[0].target", "dnsTemplates[1].name", "dnsTemplates[1].target")
    row = dict(zip(labels, (f"one.{HOST}", "lb", f"one.{HOST}", "lb"), strict=True))
    assert dns.custom_records(owner, assigned, [row, row]) == (DnsRecord(f"one.{HOST}", "lb", "uid-a"),)


@pytest.mark.parametrize(
    "host", ["a..b", "-a.example.com", "example.com.", "a" * 254, f"{'a' * 64}.com", "10.0.0.1", "*.a"]
)
def test_a_host_that_is_no_dns_name_is_the_fault_of_the_domain(host: str) -> None:
    with pytest.raises(DomainProblem, match=r"spec\.domain of Domain shop/primary\.one is .* not a DNS name"):
        dns.check_host(domain(host))
    dns.check_host(domain())


@pytest.mark.req("R-411")
def test_templates_and_records_are_bounded_before_the_work() -> None:
    large = domain(dns_mode="Custom", dns_templates=custom(("a", "b" * dns.MOST_TEMPLATE_BYTES)))
    with pytest.raises(DomainProblem, match="KiB"):
        dns.texts(large, "lb", ())
    many = dns.subdomains(HOST, [reference("a", "shop", *(f"t{number}" for number in range(dns.MOST_RECORDS + 1)))])
    with pytest.raises(DomainProblem, match="Wildcard"):
        dns.records(domain(dns_mode="Subdomain"), "lb", many)


@pytest.mark.parametrize(
    ("name", "target", "problem"),
    [
        ("{{.subDomain}}.{{ .domain }}", "{{.dnsTarget}}", ""),
        ("*.{{.domain}}", "lb.example.com", ""),
        ("fixed.app.example.com", "{{.dnsTarget}}", ""),
        ("fixed.example.com", "lb", "spec.dnsTemplates[0] makes 'fixed.example.com', which is neither"),
        ('{{ .subDomain | trunc 3 }}.{{ printf "x.%s" .domain }}', '{{ "}}" }}', ""),
        ("{{if .subDomain}}{{.other}}{{end}}", "{{.dnsTarget}}", ""),
        ("{{.subDomain}.{{.domain", "lb", "spec.dnsTemplates[0].name has {{ without }}"),
        ("a.{{.domain}}", "{{.dnsTarget}", "spec.dnsTemplates[0].target has {{ without }}"),
        (
            "{{.subdomain}}.x",
            "lb",
            "spec.dnsTemplates[0].name has .subdomain: there are .domain, .dnsTarget, .subDomain",
        ),
        ("a_b!.{{.domain}}", "lb", "spec.dnsTemplates[0] makes 'a_b!.app.example.com', which is not a DNS name"),
        ("{{.domain}}.", "lb", "spec.dnsTemplates[0] makes 'app.example.com.', which is not a DNS name"),
        ("", "lb", "spec.dnsTemplates[0] makes '', which is not a DNS name"),
        ("a.{{.domain}}", "{{.subDomain}}", "spec.dnsTemplates[0] makes the target ''"),
        ("a" * 20_000, "lb", "spec.dnsTemplates has more than 16 KiB: shorten the templates"),
    ],
)
def test_what_is_wrong_with_a_template_shows_without_executing_it(name: str, target: str, problem: str) -> None:
    shown = dns.problem_of_templates(domain(dns_mode="Custom", dns_templates=custom((name, target))))
    assert shown.startswith(problem) if problem else shown == ""


def test_templates_that_the_mode_does_not_use_have_no_problem() -> None:
    assert dns.problem_of_templates(domain(dns_mode="Wildcard", dns_templates=custom(("{{", "{{")))) == ""
