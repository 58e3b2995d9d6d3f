"""A stand-in for the Hugging Face hub: repositories, uploads and commits over HTTP."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Hub", "hub"]


@dataclass
class Hub:
    """What was asked for, and what lies there now.

    Attributes
    ----------
    url
        Where it listens.
    refuse
        Status by which it answers everything; 0 for none.
    made
        Requests for new repositories.
    files
        Content by path of the repository.
    blobs
        Large files by SHA-256.
    unknown
        Requests that it knows no answer to.
    tokens
        Tokens that came along.
    """

    url: str = ""
    refuse: int = 0
    made: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)

    def answer(self, method: str, path: str, body: bytes) -> Any:
        """Answer a request; None for one that is not known."""
        if self.refuse:
            return self.refuse
        if path == "/api/repos/create":
            self.made.append(json.loads(body))
            return {"url": f"{self.url}/org/name", "name": "org/name"}
        if path == "/api/validate-yaml":
            return {"errors": [], "warnings": []}
        if path.endswith("/preupload/main"):
            return {
                "files": [
                    {
                        "path": one["path"],
                        "uploadMode": "lfs" if one["path"].endswith(".safetensors") else "regular",
                        "shouldIgnore": False,
                    }
                    for one in json.loads(body)["files"]
                ]
            }
        if path.endswith("/info/lfs/objects/batch"):
            objects = json.loads(body)["objects"]
            actions = [
                {**one, "actions": {"upload": {"href": f"{self.url}/lfs/{one['oid']}"}}}
                for one in objects
            ]
            return {"transfer": "basic", "objects": actions}
        if method == "PUT" and path.startswith("/lfs/"):
            assert hashlib.sha256(body).hexdigest() == path.removeprefix("/lfs/")
            self.blobs[path.removeprefix("/lfs/")] = body
            return {}
        if path.endswith("/commit/main"):
            for line in map(json.loads, body.splitlines()):
                value = line["value"]
                if line["key"] == "file":
                    self.files[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "lfsFile":
                    self.files[value["path"]] = self.blobs[value["oid"]]
            place = f"{self.url}/org/name/commit/main"
            return {"commitUrl": place, "commitOid": "0" * 40, "pullRequestUrl": None}
        self.unknown.append(f"{method} {path}")
        return None


@contextlib.contextmanager
def hub() -> Iterator[Hub]:
    """Run one on a free port of this machine."""
    found = Hub()

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            if self.headers.get("Transfer-Encoding") == "chunked":
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
            else:
                body = self.rfile.read(length)
            found.tokens.add(self.headers.get("Authorization", ""))
            reply = found.answer(self.command, self.path.partition("?")[0], body)
            status = reply if isinstance(reply, int) else 404 if reply is None else 200
            content = b"{}" if status != 200 else json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_HEAD = _handle  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
