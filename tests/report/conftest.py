"""The browser of the report's tests; where there is none, the end of the test run says so loudly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.report.browser import Browser, missing


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    reason = missing()
    if reason is not None:
        pytest.skip(f"the report was not opened in a browser: {reason}")
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reason = missing()
    if reason is not None:
        terminalreporter.section("THE REPORT WAS NOT TESTED IN A BROWSER", sep="!", red=True, bold=True)
        terminalreporter.line(reason, red=True)
