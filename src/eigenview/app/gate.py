"""Who may come in: this machine's own browser, with the token, from the page itself.

Every request needs a Host that is this machine's (a foreign name that was made to point here is refused), no Origin but
the page's own, and the cookie, which the token in the address is exchanged for once. What changes something is a POST
of JSON from the page. Every answer says what the page may load (itself alone), and that no address is passed on.

Cookies do not know ports: a browser would send ours to every other server of this machine. So the page lives under a
path that nobody can guess, and the cookie is for that path alone. It is SameSite=Lax, not Strict, so that the address
can also be followed from a page of elsewhere, such as a terminal in the browser: what changes something or tells of the
pictures is refused to other origins, cookie or not.
"""

import re
import secrets

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "eigenview"
HOSTS = ("127.0.0.1", "localhost", "[::1]")  # with any port: the far end of a tunnel may have another
LARGEST = 4 << 20  # bytes of a request: a label for a million pictures at once
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class Tokens:
    """The secret in the address, the other that the cookie holds, and the path that the page lives under."""

    def __init__(self) -> None:
        self.token, self.cookie = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.home = f"/{secrets.token_urlsafe(16)}/"
        self._once: set[str] = set()

    def once(self) -> str:
        """A token for one use: a browser's command line can be read by others on the machine."""
        token = secrets.token_urlsafe(24)
        self._once.add(token)
        return token

    def takes(self, given: str) -> bool:
        if given in self._once:
            self._once.discard(given)
            return True
        return secrets.compare_digest(given.encode(), self.token.encode())


class Gate:
    """The application behind its checks."""

    def __init__(self, inner: ASGIApp, tokens: Tokens) -> None:
        self.inner, self.tokens = inner, tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no sockets, and nothing to start
        headers = Headers(scope=scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for key, value in HEADERS.items():
                    answer[key] = value
                if "cache-control" not in answer:
                    answer["Cache-Control"] = "no-store"
            await send(message)

        response = self.refusal(scope, headers) or self.entry(scope)
        if response is None and not (scope["path"].startswith(self.tokens.home) and self.is_known(headers)):
            response = PlainTextResponse(
                "Open the address that eigenview label printed: it holds the key to this page.", 403
            )
        if response is None:
            scope = {**scope, "path": scope["path"][len(self.tokens.home) - 1 :]}
        await (response or self.inner)(scope, receive, guarded)

    def refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """What no token makes good."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or re.sub(r":\d+\Z", "", hosts[0]) not in HOSTS:
            return PlainTextResponse("This page is for this machine alone.", 421)
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{hosts[0]}":
            return PlainTextResponse("Another page may not ask here.", 403)
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not self.is_visit(scope, headers):
            return PlainTextResponse("Another page may not ask here.", 403)
        if scope["method"] in ("GET", "HEAD"):
            return None
        if scope["method"] != "POST":
            return PlainTextResponse("GET and POST are understood.", 405)
        if origin is None:
            return PlainTextResponse("What changes something is asked for by the page itself.", 403)
        if headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return PlainTextResponse("JSON is understood.", 415)
        length = headers.get("content-length", "")
        if not length.isdecimal() or int(length) > LARGEST:
            return PlainTextResponse(f"At most {LARGEST} bytes, and how many must be said.", 413)
        return None

    def entry(self, scope: Scope) -> Response | None:
        """The token in the address becomes a cookie, and the address is left behind."""
        if scope["method"] != "GET" or scope["path"] != "/":
            return None
        given = QueryParams(scope["query_string"]).get("token")
        if given is None:
            return None
        if not self.tokens.takes(given):
            return PlainTextResponse(
                "This key is not, or no longer, the right one: open the address that was printed last.", 403
            )
        home = self.tokens.home
        response = RedirectResponse(home, status_code=303)
        response.set_cookie(COOKIE, self.tokens.cookie, httponly=True, samesite="lax", path=home)
        return response

    def is_known(self, headers: Headers) -> bool:
        """Whether one of the cookies is ours: another server of this machine may have set more of that name."""
        held = (part.strip().partition("=") for part in ";".join(headers.getlist("cookie")).split(";"))
        values = [value for name, _, value in held if name == COOKIE]
        return any(secrets.compare_digest(value.encode(), self.tokens.cookie.encode()) for value in values)

    def is_visit(self, scope: Scope, headers: Headers) -> bool:
        """Whether a person follows a link to the page from elsewhere, which shows it but tells the other nothing."""
        is_door = scope["method"] == "GET" and scope["path"] in ("/", self.tokens.home)
        return is_door and headers.get("sec-fetch-mode") == "navigate"
