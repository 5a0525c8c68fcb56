"""A Chromium and a JupyterLab that start here, are given nothing of the user's, and end with the test.

Nothing leaves this machine: the server listens on 127.0.0.1 only.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# The server that JupyterLab's own browser tests use: no token, no news, the application within reach of the page.
SETTINGS = """\
from jupyterlab.galata import configure_jupyter_server
configure_jupyter_server(c)
c.ServerApp.ip = "127.0.0.1"
c.ServerApp.root_dir = {root!r}
c.ServerApp.allow_root = True
c.LabApp.workspaces_dir = {home!r} + "/workspaces"
c.LabApp.user_settings_dir = {home!r} + "/settings"
"""
START = 120  # Seconds that a server, a page or a kernel may take to come up on a loaded machine.
TRIES = 2  # A port that was free when it was looked for may be somebody's when the server asks for it.


def find_chromium() -> str | None:
    """Path of the system's Chromium; CHROMIUM names another one."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUMS)), None)


@contextmanager
def chromium(executable: str, folder: Path) -> Iterator[Browser]:
    """A headless browser that is given nothing of the user's."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=FLAGS, env={**os.environ, "HOME": str(folder)}, timeout=1000 * START
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def jupyterlab(notebooks: Path, folder: Path) -> Iterator[str]:
    """A JupyterLab on a copy of the notebooks; yields its address and ends it with its kernels."""
    root, home = folder / "root", folder / "home"
    home.mkdir(parents=True)
    shutil.copytree(notebooks, root, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    asks = home / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    asks.parent.mkdir(parents=True)
    asks.write_text('{"fetchNews": "false", "checkForUpdates": false}')  # No question that covers the page.
    config = home / "jupyter_server_config.py"
    config.write_text(SETTINGS.format(root=str(root), home=str(home)))
    own = ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    environment = {**os.environ, "HOME": str(home), **{name: str(home / name) for name in own}}
    log = folder / "jupyter.log"
    with log.open("w") as output:
        for _ in range(TRIES):
            port = free_port()
            server = subprocess.Popen(
                [sys.executable, "-m", "jupyterlab", f"--config={config}", f"--ServerApp.port={port}"],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, cwd=root,
            )  # fmt: skip
            try:
                address = f"http://127.0.0.1:{port}"
                if comes_up(f"{address}/api", server):
                    yield address
                    return
            finally:
                end(server)
    raise RuntimeError(f"JupyterLab did not come up:\n{log.read_text()[-3000:]}")


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def comes_up(address: str, server: "subprocess.Popen[bytes]") -> bool:
    """Ask until the server answers; False if it ends or is too slow."""
    until = time.monotonic() + START
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=2):
                return True
        except OSError:
            time.sleep(0.2)  # Not for order: only not to ask a thousand times a second.
    return False


def end(server: "subprocess.Popen[bytes]") -> None:
    """End the server, and before it its kernels."""
    server.terminate()
    try:
        server.wait(30)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
