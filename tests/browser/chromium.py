"""A headless Chromium driven over chromedriver's HTTP interface, with nothing but the standard library."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def missing() -> str:
    """Return why no browser can be driven here; empty where one can."""
    if not any(shutil.which(name) for name in _NAMES):
        return "no chromium on this machine"
    return "" if shutil.which("chromedriver") else "no chromedriver on this machine"


@dataclass(frozen=True)
class Browser:
    """One open window; `url` addresses its WebDriver session."""

    url: str

    def cdp(self, method: str, **parameters: Any) -> Any:
        """Return what a command of the DevTools protocol answers."""
        return _call(f"{self.url}/goog/cdp/execute", {"cmd": method, "params": parameters})

    def js(self, script: str, *arguments: Any) -> Any:
        """Return what a function body returns when it runs in the page."""
        return _call(f"{self.url}/execute/sync", {"script": script, "args": list(arguments)})

    def log(self) -> list[dict[str, Any]]:
        """Return the page's console messages since the last call, failed loads and uncaught errors among them."""
        entries: list[dict[str, Any]] = _call(f"{self.url}/se/log", {"type": "browser"})
        return entries

    def requests(self) -> list[str]:
        """Return every address that an opened file asked for since the last call, its own included."""
        entries = _call(f"{self.url}/se/log", {"type": "performance"})
        messages = [json.loads(entry["message"])["message"] for entry in entries]
        sent = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        return [request["request"]["url"] for request in sent if request["documentURL"].startswith("file:")]

    def open(self, path: Path, *, width: int = 1440, height: int = 1000, is_dark: bool = False) -> None:
        """Open a file at a width of the viewport and wait until the page's script says it is done.

        Raises:
            TimeoutError: The script has not finished within 30 s.
        """
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self.cdp("Emulation.setEmulatedMedia", features=[scheme])
        self.cdp(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        _call(f"{self.url}/url", {"url": path.resolve().as_uri()})
        deadline = time.monotonic() + 30
        while self.js("return document.documentElement.dataset.state") != "ready":
            if time.monotonic() > deadline:
                raise TimeoutError(f"{path.name} did not become ready: {self.log()}")
            time.sleep(0.05)

    def screenshot(self, path: Path) -> None:
        """Write the whole page as a PNG."""
        size = self.js("return [document.documentElement.clientWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
        shot = self.cdp("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Yield a fresh browser whose profile lies in `profile`; both of its processes end with the block."""
    binary = next(path for name in _NAMES if (path := shutil.which(name)))
    driver = shutil.which("chromedriver")
    if driver is None:
        raise FileNotFoundError(missing())
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([driver, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    base = f"http://127.0.0.1:{port}/session"
    options = {
        "binary": binary,
        "args": [*_FLAGS, f"--user-data-dir={profile}"],
    }
    wanted = {
        "browserName": "chrome",
        "goog:chromeOptions": options,
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
    }
    try:
        opened = _call(base, {"capabilities": {"alwaysMatch": wanted}}, retry_s=20)
        url = f"{base}/{opened['sessionId']}"
        try:
            yield Browser(url)
        finally:
            _call(url, None, method="DELETE")
    finally:
        process.terminate()
        process.wait(timeout=10)


def _call(url: str, body: dict[str, Any] | None, *, method: str = "POST", retry_s: float = 0) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)  # noqa: S310
    deadline = time.monotonic() + retry_s
    while True:
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - 127.0.0.1, chosen above
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from error
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
