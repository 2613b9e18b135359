"""A real browser without a window: Debian's Chromium, driven by Selenium."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--disable-dev-shm-usage",
)


def missing() -> str | None:
    """Why no browser can be started, or None."""
    if CHROMIUM is None or DRIVER is None:
        return "chromium and chromedriver are not installed (Debian: apt-get install chromium chromium-driver)"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "selenium is not installed (pip install 'eigenview[dev]')"
    return None


class Browser:
    """One Chromium with an empty profile in ``profile``; remembers what pages asked for and complained of."""

    def __init__(self, profile: Path) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service

        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver: Any = webdriver.Chrome(options=options, service=Service(DRIVER, log_output=os.devnull))
        self.driver.set_script_timeout(30)

    def open(self, page: Path | str, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """The page in a window of that size, with nothing remembered of the page before."""
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.command("Emulation.setEmulatedMedia", features=[scheme])
        self.driver.get("about:blank")
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)
        self.driver.get(page if isinstance(page, str) else page.as_uri())
        self.settle()

    def settle(self) -> None:
        """Wait for two animation frames: what was asked to be redrawn is."""
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(done))"
        )

    def command(self, name: str, **parameters: object) -> Any:
        return self.driver.execute_cdp_cmd(name, parameters)

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Addresses asked for since the page was opened, data: and blob: aside."""
        asked = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(str(message["params"]["request"]["url"]))
        return [address for address in asked if not address.startswith(("data:", "blob:"))]

    def press(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()

    def point_at(self, element_id: str, x: float, y: float, *, click: bool = False) -> None:
        """The mouse at (x, y) of an element, from its upper left corner."""
        box = self.run("return document.getElementById(arguments[0]).getBoundingClientRect().toJSON()", element_id)
        place = {"x": box["x"] + x, "y": box["y"] + y}
        self.command("Input.dispatchMouseEvent", type="mouseMoved", **place)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.command("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)
        self.settle()

    def kill(self) -> None:
        """The window and its driver, as a crash would end them."""
        driver = self.driver.service.process.pid
        for children in Path(f"/proc/{driver}/task").glob("*/children"):  # whichever of its threads began it
            for window in children.read_text(encoding="ascii").split():
                os.kill(int(window), signal.SIGKILL)
        os.kill(driver, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        self.driver.quit()
