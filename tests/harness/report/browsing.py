"""A headless browser for tests, and what a test asks a page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

CONTRAST = """
() => {
  const parse = (text) => {
    const parts = text.match(/[\\d.]+/g).map(Number);
    return { rgb: parts.slice(0, 3), alpha: parts.length > 3 ? parts[3] : 1 };
  };
  const luminance = (rgb) => {
    const linear = (s) => (s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgb.map((part) => linear(part / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let place = element; place; place = place.parentElement) {
      const colour = parse(getComputedStyle(place).backgroundColor);
      if (colour.alpha === 1) return colour.rgb;
    }
    return [255, 255, 255];
  };
  const ratio = (first, second) => {
    const [low, high] = [luminance(first), luminance(second)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const found = [];
  for (const element of document.body.querySelectorAll("*")) {
    if (!element.checkVisibility() || element.closest("script, style")) continue;
    const style = getComputedStyle(element);
    const drawn = element instanceof SVGElement;
    const words = element.textContent.trim().slice(0, 40);
    const text = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (text) {
      const colour = parse(drawn ? style.fill : style.color).rgb;
      found.push({ kind: "text", what: words, ratio: ratio(colour, behind(element)) });
    } else if (drawn && element.getAttribute("stroke")?.match(/blue|orange|grey/)) {
      const colour = parse(style.stroke).rgb;
      found.push({ kind: "line", what: element.getAttribute("stroke"), ratio: ratio(colour, behind(element)) });
    }
  }
  return found;
}
"""
"""The contrast, by WCAG 2, of every visible text and of the lines of plots with what is behind them."""


@contextmanager
def open_browser() -> Iterator[Any]:
    """A headless Chromium: the system's, or playwright's own; skips the test where there is neither."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        path = next((found for name in _NAMES if (found := shutil.which(name))), driver.chromium.executable_path)
        if not Path(path).exists():
            pytest.skip("no Chromium here: apt-get install chromium, or playwright install chromium")
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()
