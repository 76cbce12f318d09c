"""Tests that open a page in headless Chromium."""
