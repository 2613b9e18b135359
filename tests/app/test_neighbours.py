"""Other servers of this machine, and other sites, as a real browser meets them."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from tests.app.person import Person
from tests.app.places import Client
from tests.report.browser import Browser

READ = """
const [addresses, done] = arguments;
const read = (address) => fetch(address, { credentials: "include" }).then((answer) => answer.text(), () => "refused");
const load = (address) => new Promise((is) => {
  const image = new Image();
  image.onload = () => is("seen"); image.onerror = () => is("refused"); image.src = address;
});
Promise.all(addresses.flatMap((address) => [read(address), load(address)])).then(done);
"""


class Neighbour:
    """A server on another port that gives out one page and remembers the cookies it is sent."""

    def __init__(self) -> None:
        self.page, self.cookies = "", [""]
        neighbour = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                neighbour.cookies.append(self.headers.get("Cookie", ""))
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(neighbour.page.encode())

            def log_message(self, *words: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]


@pytest.fixture
def neighbour() -> Iterator[Neighbour]:
    opened = Neighbour()
    thread = Thread(target=opened.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield opened
    opened.server.shutdown()
    opened.server.server_close()
    thread.join()


def test_another_server_of_this_machine_gets_no_cookie_and_sees_nothing(
    browser: Browser, client: Client, neighbour: Neighbour
):
    Person(browser, client.address)
    home = f"http://127.0.0.1:{client.port}{client.home}"
    for path in ("/", "/api/state", "/small/0"):
        browser.open(f"http://127.0.0.1:{neighbour.port}{path}")
    assert set(neighbour.cookies) == {""}
    seen = browser.driver.execute_async_script(READ, [f"{home}api/state", f"{home}small/0"])  # even if it knew the path
    assert set(seen) == {"refused"}


def test_the_address_may_be_followed_from_a_page_of_elsewhere(browser: Browser, client: Client, neighbour: Neighbour):
    for address in (client.address, f"http://127.0.0.1:{client.port}{client.home}"):  # at first, and once it is known
        neighbour.page = f"<a id=link href='{address}'>the page</a>"
        browser.open(f"http://localhost:{neighbour.port}/")  # another site than 127.0.0.1
        browser.run("document.getElementById('link').click()")
        person = Person(browser)
        assert "token" not in browser.run("return location.href")
        person.answer("amber")
