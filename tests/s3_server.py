"""An S3 API server in this process, in memory, that counts what it is asked for; other processes reach it by URL."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import fsspec
import pytest

moto_server = pytest.importorskip("moto.server")
serving = pytest.importorskip("werkzeug.serving")

BUCKET = "bucket"

_ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}


@dataclass
class S3:
    """A running server, and the body bytes that each key was asked for by GET, a number a request."""

    endpoint: str
    fetched: dict[str, list[int]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to reach it: the usual variables."""
        return {**_ENVIRONMENT, "AWS_ENDPOINT_URL": self.endpoint}

    def n_fetched(self, part: str) -> int:
        """Return the bytes fetched of objects with `part` in their key."""
        return sum(sum(sizes) for key, sizes in self.fetched.items() if part in key)


@contextlib.contextmanager
def running_s3() -> Iterator[S3]:
    """Give a server with one empty bucket, and the environment that leads to it."""
    app = moto_server.DomainDispatcherApplication(moto_server.create_backend_app)
    create = threading.Lock()

    class Quiet(serving.WSGIRequestHandler):  # type: ignore[misc, name-defined]
        def log(self, type: str, message: str, *args: Any) -> None:
            """Say nothing of each request."""

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        # The true service compares and creates as one; this one could answer two at once between the two.
        with create if "HTTP_IF_NONE_MATCH" in environ else contextlib.nullcontext():
            body: list[bytes] = list(app(environ, start))
        key = re.sub(rf"^/{BUCKET}/", "", environ["PATH_INFO"])
        if environ["REQUEST_METHOD"] == "GET" and key != f"/{BUCKET}":
            s3.fetched.setdefault(key, []).append(sum(map(len, body)))
        return body

    server = serving.make_server("127.0.0.1", 0, answer, threaded=True, request_handler=Quiet)
    s3 = S3(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    fsspec.get_filesystem_class("s3").clear_instance_cache()  # one may know another server
    try:
        with mock.patch.dict(os.environ, s3.environment):
            again = http.client.HTTPConnection("127.0.0.1", server.server_port)
            again.request("POST", "/moto-api/reset")  # what it holds is the whole process's
            again.getresponse().read()
            again.close()
            fsspec.filesystem("s3").mkdir(BUCKET)
            yield s3
    finally:
        server.shutdown()
        thread.join()
        fsspec.get_filesystem_class("s3").clear_instance_cache()
