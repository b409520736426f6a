"""A Chromium for the tests that open a page: looked for, and in CI installed where it is missing.

Playwright drives it, but its own browsers come from a server that CI does not reach; Debian's
package is kept up to date and needs none.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from interpreters import run, say

__all__ = ["CHROMIUM", "ensure_chromium", "find_chromium"]

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""Names under which a Chromium is on PATH."""

SECONDS = 600


def find_chromium() -> str | None:
    """Path of a Chromium, if there is one."""
    return next(filter(None, map(shutil.which, CHROMIUM)), None)


def ensure_chromium(environment: Mapping[str, str] = os.environ) -> str:
    """Install Debian's Chromium in CI; elsewhere, or where that fails, say what is missing.

    Returns:
        What tests will go without; empty if there is a Chromium.
    """
    if find_chromium():
        return ""
    without = "going without the tests that open a page: no Chromium on PATH"
    if environment.get("CI") != "true":
        return f"{without} (apt-get install chromium)"
    if not shutil.which("apt-get") or os.geteuid() != 0:
        return f"{without}, and no apt-get as root to install it"
    say("installing Chromium, which the tests of pages open: 400 MB, one to three minutes")
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"]
    done = run(["apt-get", "update", "-qq"], SECONDS) and run(install, SECONDS)
    return "" if done and find_chromium() else f"{without}, it could not be installed"
