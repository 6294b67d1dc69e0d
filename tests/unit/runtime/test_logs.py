"""What a log line shows, and what it never shows."""

from __future__ import annotations

import asyncio
import io
import logging
import time
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.kube.types.errors import Unreachable
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.runtime.telemetry import logs
from stellwerk.runtime.telemetry.logs import Encoding, LogSettings, Redactor, TimeEncoding, settings_from_flags
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, measured_stalls

pytestmark = pytest.mark.heavy

KEY = ObjectKey("kyma-system", "btpoperator")


class Written:
    """The log of this process, while a test looks at it."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.log = logging.getLogger("stellwerk.test")

    def configure(self, settings: LogSettings) -> Redactor:
        return logs.configure(settings, stream=self.stream)

    @property
    def lines(self) -> list[dict[str, object]]:
        return [msgspec.json.decode(line, type=dict[str, object]) for line in self.stream.getvalue().splitlines()]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[Written]:
    root = logging.getLogger()
    monkeypatch.setattr(logs, "_process", Redactor())  # what other tests of this process had to hide
    handlers, level = [*root.handlers], root.level
    yield Written()
    root.handlers, root.level = handlers, level


def test_a_line_is_json_with_time_level_logger_and_message(written: Written) -> None:
    written.configure(LogSettings())
    written.log.info("created %s", "x", extra=logs.fields(count=3))
    [line] = written.lines
    assert line.pop("ts")
    assert line == {"level": "info", "logger": "stellwerk.test", "msg": "created x", "count": 3}


async def test_lines_carry_the_object_of_their_own_task(written: Written) -> None:
    written.configure(LogSettings())

    async def work(name: str) -> None:
        with logs.reconciling("BtpOperator", ObjectKey("kyma-system", name), f"id-{name}"):
            await asyncio.sleep(0)
            written.log.info("working on %s", name)

    await asyncio.gather(work("a"), work("b"))
    written.log.info("nobody's")
    *both, nobody = written.lines
    a, b = sorted(both, key=lambda line: str(line["name"]))
    assert (a["kind"], a["namespace"], a["name"], a["reconcileID"]) == ("BtpOperator", "kyma-system", "a", "id-a")
    assert (b["name"], b["msg"]) == ("b", "working on b")
    assert "kind" not in nobody


def test_an_expected_failure_shows_its_message_and_no_stack(written: Written) -> None:
    written.configure(LogSettings())
    try:
        raise Unreachable("cannot get Secret a/b: no answer in time")
    except Unreachable:
        written.log.exception("try again")
    [line] = written.lines
    assert line["error"] == "cannot get Secret a/b: no answer in time"
    assert "stack" not in line


def test_a_surprise_shows_its_stack(written: Written) -> None:
    written.configure(LogSettings())
    try:
        raise ZeroDivisionError("oops")
    except ZeroDivisionError:
        written.log.exception("a bug")
    [line] = written.lines
    assert line["error"] == "oops"
    assert "ZeroDivisionError: oops" in str(line["stack"])


def test_a_detail_cannot_pass_for_a_fact_of_the_line(written: Written) -> None:
    written.configure(LogSettings())
    written.log.info("real", extra=logs.fields(msg="forged", level="panic"))
    [line] = written.lines
    assert (line["msg"], line["level"]) == ("real", "info")
    assert (line["msg_"], line["level_"]) == ("forged", "panic")


def test_people_read_one_short_line(written: Written) -> None:
    written.configure(LogSettings(encoding=Encoding.CONSOLE))
    with logs.reconciling("BtpOperator", KEY, "id"):
        written.log.warning("waits", extra=logs.fields(missing="client id"))
    text = written.stream.getvalue()
    assert text.endswith('WARNING BtpOperator kyma-system/btpoperator: waits missing="client id"\n')


def test_a_name_from_the_cluster_cannot_forge_a_line_or_steer_a_terminal(written: Written) -> None:
    written.configure(LogSettings(encoding=Encoding.CONSOLE))
    written.log.info("found %s", "a\nb\x1b[31m", extra=logs.fields(also="c\nd"))
    assert written.stream.getvalue().count("\n") == 1
    assert "\x1b" not in written.stream.getvalue()


def test_a_stack_cannot_forge_a_line_or_steer_a_terminal(written: Written) -> None:
    written.configure(LogSettings(encoding=Encoding.CONSOLE))
    try:
        raise ZeroDivisionError("\x1b[2J\n12:00:00.000 INFO    Component kube-system/fake: all is well")
    except ZeroDivisionError:
        written.log.exception("it broke")
    first, *stack = written.stream.getvalue().rstrip("\n").split("\n")
    assert "it broke" in first
    assert all(line.startswith("    ") for line in stack)
    assert stack[-1] == "    12:00:00.000 INFO    Component kube-system/fake: all is well"
    assert "\x1b" not in written.stream.getvalue()
    assert "ZeroDivisionError: \\x1b[2J" in written.stream.getvalue()


@pytest.mark.req("R-507")
@pytest.mark.parametrize("encoding", Encoding)
def test_a_secret_of_one_tenant_does_not_hide_the_name_of_an_object_of_another(
    written: Written, encoding: Encoding
) -> None:
    written.configure(LogSettings(encoding=encoding)).hide("production", "Component", "web-shop", tenant="evil")
    with logs.reconciling("Component", ObjectKey("production", "web-shop")):
        written.log.info("done in production", extra=logs.fields(name_of_other="web-shop"))
    shown = written.stream.getvalue()
    assert all(word in shown for word in ("production", "Component", "web-shop"))
    assert [shown.count(word) for word in ("production", "web-shop", Redactor.MASK)] == [1, 1, 2]


@pytest.mark.req("R-801")
@pytest.mark.parametrize("encoding", list(Encoding))
def test_a_registered_secret_is_never_shown(written: Written, encoding: Encoding) -> None:
    written.configure(LogSettings(level=logging.DEBUG, encoding=encoding)).hide("canary-5e1d")

    def fails(secret: str) -> None:
        raise RuntimeError(f"cannot use {secret}")

    try:
        fails("canary-5e1d")
    except RuntimeError:
        written.log.exception("with %s", "canary-5e1d", extra=logs.fields(detail="canary-5e1d"))
    assert written.stream.getvalue()
    assert "canary" not in written.stream.getvalue()


@pytest.mark.req("R-801")
@pytest.mark.parametrize(
    "secret",
    [
        "-----BEGIN RSA PRIVATE KEY-----\nMIIcanary\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIcanary, cut off here",
        "Authorization: Bearer canary.canary-canary",
        "https://user:canarycanary@host/path",
        '{"clientsecret": "canary"}',
        "client_secret=canary&x=1",
        "AGE-SECRET-KEY-1CANARYCANARY",
        "eyJhbGciOiJub25lIn0.eyJjYW5hcnkiOjF9.canary",
    ],
)
def test_what_looks_like_a_secret_is_masked_unasked(secret: str) -> None:
    assert "canary" not in Redactor().redacted(f"before {secret} after").lower()


def test_a_masked_line_keeps_what_is_not_secret() -> None:
    shown = Redactor(["hunter2hunter2"]).redacted("GET https://u:p@host/path with hunter2hunter2 and more")
    assert shown == "GET https://***@host/path with *** and more"


def test_short_values_do_not_blacken_ordinary_words() -> None:
    assert Redactor(["true", "a"]).redacted("a true story") == "a true story"


@given(st.lists(st.text(min_size=6, max_size=20), max_size=20), st.text(max_size=50), st.text(max_size=50))
def test_no_registered_value_survives(values: list[str], before: str, after: str) -> None:
    redactor = Redactor(values)
    for value in values:
        shown = redactor.redacted(f"{before}{value}{after}")
        assert value not in shown or value in f"{before}{Redactor.MASK}{after}"


@pytest.mark.req("R-801")
def test_a_value_is_masked_in_base64_and_line_by_line() -> None:
    redactor = Redactor(["first-canary\nsecond-canary"])
    shown = redactor.redacted(f"{'first-canary' + chr(10) + 'second-canary'!r} or Zmlyc3QtY2FuYXJ5CnNlY29uZC1jYW5hcnk=")
    assert "canary" not in shown
    assert "Zmlyc3Q" not in shown


def test_whoever_reads_a_secret_may_hide_it_in_all_lines(written: Written) -> None:
    written.configure(LogSettings())
    logs.hide("canary-of-the-process")
    written.log.info("with canary-of-the-process")
    assert written.lines[0]["msg"] == "with ***"


@pytest.mark.req("R-411")
def test_the_values_of_the_process_itself_make_room_for_each_other() -> None:
    redactor = Redactor(f"secret-{number}" for number in range(10_000))
    assert redactor.redacted("secret-9999") == Redactor.MASK
    assert redactor.redacted("a secret-0 b") == "a secret-0 b"
    assert redactor.weight <= Redactor.TENANT_BYTES


@pytest.mark.req("R-804")
def test_the_words_of_one_tenant_take_no_room_from_another() -> None:
    redactor = Redactor()
    redactor.hide("canary-of-a-victim", tenant="victim", source="secret/a")
    for number in range(50):
        redactor.hide(*(f"word-{number}-{word}" for word in range(5_000)), tenant="flood", source=f"secret/{number}")
    assert redactor.redacted("with canary-of-a-victim") == "with ***"
    assert redactor.withholds("flood")
    assert not redactor.withholds("victim")
    assert redactor.weight <= 2 * Redactor.TENANT_BYTES


@pytest.mark.req("R-804", "R-411")
def test_where_all_tenants_together_need_too_much_the_largest_is_withheld() -> None:
    redactor = Redactor(total_bytes=100_000)
    redactor.hide("canary-of-a-victim", tenant="victim", source="s")
    for number in range(30):
        redactor.hide(*(f"word-{number}-{word}" for word in range(100)), tenant=f"flood-{number}", source="s")
    assert redactor.weight <= 100_000
    assert redactor.redacted("with canary-of-a-victim") == "with ***"
    assert not redactor.withholds("victim")
    for number in range(30):
        shown = redactor.redacted(f"with word-{number}-7")
        assert shown == "with ***" or redactor.withholds(f"flood-{number}")


@pytest.mark.req("R-804")
@pytest.mark.parametrize("encoding", list(Encoding))
def test_lines_about_a_tenant_whose_words_are_not_all_known_show_no_value(written: Written, encoding: Encoding) -> None:
    redactor = written.configure(LogSettings(encoding=encoding))
    redactor.hide(*(f"canary-{number}" for number in range(50_000)), tenant="shop", source="secret/many")

    def line(namespace: str) -> str:
        written.stream.seek(0)
        written.stream.truncate()
        with logs.reconciling("Component", ObjectKey(namespace, "app"), "1"):
            try:
                raise RuntimeError("it quotes canary-49999")
            except RuntimeError:
                written.log.exception("%s failed with %s", "app", "canary-49999", extra=logs.fields(x="canary-49999"))
        return written.stream.getvalue()

    assert "canary" not in line("shop")
    assert "app" in line("shop")
    assert "%s failed with %s" in line("shop")
    assert "canary-49999" in line("other"), "only lines of the one tenant are withheld"
    redactor.hide("canary-1", tenant="shop", source="secret/many")
    assert "it quotes canary-49999" in line("shop"), "the Secret has another content now"


def test_the_former_values_of_a_source_and_of_one_that_is_gone_are_forgotten() -> None:
    redactor = Redactor()
    redactor.hide("first-value", tenant="shop", source="secret/a")
    redactor.hide("second-value", "shared-value", tenant="shop", source="secret/a")
    redactor.hide("shared-value", tenant="other", source="secret/b")
    assert redactor.redacted("first-value, second-value, shared-value") == "first-value, ***, ***"
    redactor.forget("shop", "secret/a")
    redactor.forget("shop", "secret/a")
    assert redactor.redacted("first-value, second-value, shared-value") == "first-value, second-value, ***"
    redactor.forget("other", "secret/b")
    assert redactor.weight == 0


@pytest.mark.req("R-412")
@pytest.mark.parametrize(
    "text",
    [
        "eyJ-" * 50_000,
        "-----BEGIN " * 20_000,
        "basic " * 30_000,
        "://a:" * 40_000,
        f"password{' ' * 200_000}",
        "\\u0041" * 30_000,
        "%41" * 50_000,
        "a" * 200_000,
    ],
    ids=lambda text: repr(text[:8]),
)
def test_a_line_takes_a_moment_whatever_stands_in_it_and_whatever_is_hidden(text: str) -> None:
    redactor = Redactor(["a" * length + "b" for length in range(6, 512)])
    for tenant in range(8):
        redactor.hide("\n".join(f"{tenant} line {line}" for line in range(60_000)), tenant=f"{tenant}", source="s")
    began = time.thread_time()
    redactor.redacted(text)
    assert time.thread_time() - began < 0.1


@pytest.mark.req("R-412")
async def test_secrets_of_many_short_lines_are_hidden_without_a_stall() -> None:
    redactor = Redactor()
    text = "\n".join(f"{line:08}" for line in range(110_000))
    for number in range(8):
        with measured_stalls() as stalls:
            redactor.hide(text, tenant="shop", source=f"secret/{number}")
        assert stalls.longest_seconds < LONGEST_STALL_SECONDS


@pytest.mark.req("R-804")
def test_a_text_that_is_cut_shows_no_part_of_a_secret_at_the_cut() -> None:
    redactor = Redactor(["canary-canary"])
    for before in (16_380, 16_384 - 13, 16_384 - 12):
        assert "cana" not in redactor.redacted(f"{'.' * before}canary-canary{'.' * 100}")
    token = f"eyJ{'canary' * 40}.{'canary' * 40}.canary"
    assert "canary" not in redactor.redacted(f"{'.' * 16_300}{token}")


def test_a_second_configuration_replaces_the_first(written: Written) -> None:
    written.configure(LogSettings())
    written.configure(LogSettings())
    written.log.info("once")
    assert len(written.lines) == 1


@pytest.mark.parametrize(
    ("flags", "settings"),
    [
        ({}, LogSettings()),
        ({"tty": True}, LogSettings(encoding=Encoding.CONSOLE)),
        ({"tty": True, "encoder": "json"}, LogSettings()),
        ({"level": "error"}, LogSettings(level=logging.ERROR)),
        ({"level": "7"}, LogSettings(level=logging.DEBUG)),
        ({"time_encoding": "epoch"}, LogSettings(time_encoding=TimeEncoding.EPOCH)),
        ({"devel": True}, LogSettings(logging.DEBUG, Encoding.CONSOLE, stack_level=logging.WARNING)),
        ({"devel": True, "encoder": "json", "level": "info"}, LogSettings(stack_level=logging.WARNING)),
        ({"stacktrace_level": "panic"}, LogSettings(stack_level=logging.CRITICAL)),
    ],
)
def test_flags_mean_what_they_mean_to_zap(flags: dict[str, str], settings: LogSettings) -> None:
    assert settings_from_flags(**flags) == settings  # type: ignore[arg-type]  # the table mixes texts and switches


@pytest.mark.parametrize("flags", [{"level": "loud"}, {"level": "0"}, {"encoder": "xml"}, {"time_encoding": "later"}])
def test_a_wrong_flag_says_what_is_expected(flags: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"--zap-.*expected"):
        settings_from_flags(**flags)  # type: ignore[arg-type]  # all of them are texts here


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        (TimeEncoding.EPOCH, 1.25),
        (TimeEncoding.MILLIS, 1250.0),
        (TimeEncoding.NANO, 1_250_000_000),
        (TimeEncoding.ISO8601, "1970-01-01T00:00:01.250Z"),
        (TimeEncoding.RFC3339, "1970-01-01T00:00:01Z"),
        (TimeEncoding.RFC3339NANO, "1970-01-01T00:00:01.250000Z"),
    ],
)
def test_times_are_written_as_asked(written: Written, encoding: TimeEncoding, expected: object) -> None:
    written.configure(LogSettings(time_encoding=encoding))
    record = written.log.makeRecord("stellwerk.test", logging.INFO, "", 0, "now", (), None)
    record.created = 1.25
    logging.getLogger().handle(record)
    assert written.lines[0]["ts"] == expected


@pytest.mark.req("R-413")
@pytest.mark.req("R-512")
@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.parametrize(
    "text", ["\ud800", "a \udcff b", "\x00", "\U00010348", "\x1b[31m"], ids=["lone", "low", "nul", "wide", "escape"]
)
def test_any_text_makes_a_line_that_can_be_written(written: Written, encoding: Encoding, text: str) -> None:
    stream = io.BytesIO()
    logs.configure(
        LogSettings(encoding=encoding), stream=io.TextIOWrapper(stream, encoding="utf-8", write_through=True)
    )
    (handler,) = [each for each in logging.getLogger().handlers if type(each.formatter).__module__ == logs.__name__]
    error = ValueError(text)
    record = logging.LogRecord("test", logging.ERROR, "file.py", 1, "begin %s", (text,), (ValueError, error, None))
    record.fields = {"value": text}
    handler.handle(record)
    assert b"begin" in stream.getvalue()
    assert stream.getvalue().decode()


@pytest.mark.req("R-512")
def test_a_line_that_cannot_be_made_is_told_and_raises_nothing(
    written: Written, capsys: pytest.CaptureFixture[str]
) -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RecursionError

    written.configure(LogSettings())
    (handler,) = [each for each in logging.getLogger().handlers if type(each.formatter).__module__ == logs.__name__]
    for text, arguments, error in (("too few %s: %s", ("canary",), None), ("odd", (), Odd())):
        exc_info = (type(error), error, None) if error else None
        handler.handle(logging.LogRecord("test", logging.ERROR, "file.py", 1, text, arguments, exc_info))
    first, second = written.lines
    assert "cannot be written: TypeError" in str(first["msg"])
    assert (second["msg"], second["error"]) == ("odd", "Odd")
    assert "canary" not in capsys.readouterr().err, "the standard library prints what it cannot format"


@pytest.mark.req("R-512")
def test_a_surprise_shows_its_stack_whatever_its_class(written: Written) -> None:
    written.configure(LogSettings())
    for expected in (TimeoutError("late"), Unreachable("refused")):
        written.log.error("expected", exc_info=expected)
        written.log.error("unexpected", exc_info=expected, extra=logs.STACK)
    assert ["stack" in line for line in written.lines] == [False, True] * 2


def test_a_long_stack_shows_where_it_began_and_where_it_ended(written: Written) -> None:
    def ping(depth: int) -> None:
        pong(depth - 1) if depth else int("the end")

    def pong(depth: int) -> None:
        ping(depth)

    written.configure(LogSettings())
    try:
        ping(400)
    except ValueError as error:
        written.log.exception("deep", exc_info=error)
    (line,) = written.lines
    stack = str(line["stack"])
    assert len(stack) <= 33 * 1024
    assert "ping(400)" in stack
    assert stack.endswith("'the end'")
