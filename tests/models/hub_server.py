"""A hub on this machine: the few endpoints of the real one that fetching uses, over HTTP, with repositories held in memory."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LARGE = 1000
"""Larger files have a SHA-256, as files in LFS have on the hub."""


@dataclass
class Repository:
    """A repository by commit; the last commit is what `main` names."""

    commits: dict[str, dict[str, bytes]]
    gated: bool = False

    def resolve(self, revision: str) -> str | None:
        """The commit that a revision names."""
        if revision == "main":
            return list(self.commits)[-1]
        return revision if revision in self.commits else None


@dataclass
class Hub:
    """What the server holds, and what it was asked for."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    """By page: `owner/name`, `datasets/owner/name`."""
    requests: list[str] = field(default_factory=list)
    """`METHOD path` of every request, with its range where it has one."""
    break_off_after: dict[str, int] = field(default_factory=dict)
    """By file name: after how many bytes of an answer the connection is cut, always."""
    stall_after: dict[str, int] = field(default_factory=dict)
    """By file name: after how many bytes an answer says nothing any more."""
    told_sizes: dict[str, int] = field(default_factory=dict)
    """By file name: the size that a HEAD request gets in place of the file's own."""
    address: str = ""

    def asked(self, words: str) -> list[str]:
        """The requests that contain some words."""
        return [request for request in self.requests if words in request]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: object) -> None:
        """Silence."""

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        headers.setdefault("Content_Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        asked = self.headers.get("Range")
        self.hub.requests.append(f"{self.command} {path}" + (f" {asked}" if asked else ""))
        if found := re.fullmatch(
            r"/api/(models|datasets)/([^/]+/[^/]+)(?:/(auth-check|(?:revision|tree)/(.+)))?", path
        ):
            page = found[2] if found[1] == "models" else f"datasets/{found[2]}"
            self._api(page, (found[3] or "").split("/")[0], found[4] or "main")
        elif found := re.fullmatch(r"/((?:datasets/)?[^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._file(found[1], found[2], found[3])
        else:
            self._answer(404)

    def _allowed(self, page: str) -> Repository | None:
        repository = self.hub.repositories.get(page)
        if repository is None:
            self._answer(404, X_Error_Code="RepoNotFound")
        elif repository.gated and self.headers.get("Authorization") != "Bearer hf_allowed":
            self._answer(403, X_Error_Code="GatedRepo", X_Error_Message="Access is restricted")
        else:
            return repository
        return None

    def _api(self, page: str, what: str, revision: str) -> None:
        repository = self._allowed(page)
        if repository is None:
            return
        if what == "auth-check":
            self._answer(200)
            return
        commit = repository.resolve(revision)
        if commit is None:
            self._answer(404, X_Error_Code="RevisionNotFound")
            return
        files = [_entry(name, content) for name, content in repository.commits[commit].items()]
        facts = {"id": page.removeprefix("datasets/"), "sha": commit}
        body = json.dumps(files if what == "tree" else facts).encode()
        self._answer(200, body, Content_Type="application/json")

    def _file(self, page: str, revision: str, name: str) -> None:
        repository = self._allowed(page)
        if repository is None:
            return
        commit = repository.resolve(revision)
        content = repository.commits[commit].get(name) if commit else None
        if commit is None or content is None:
            self._answer(404, X_Error_Code="EntryNotFound")
            return
        tag = f'"{hashlib.sha256(content).hexdigest()}"'
        start = int(match[1]) if (match := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")) else 0
        self.send_response(206 if start else 200)
        self.send_header("X-Repo-Commit", commit)
        self.send_header("ETag", tag)
        size = self.hub.told_sizes.get(name, len(content)) if self.command == "HEAD" else len(content)
        self.send_header("Content-Length", str(size - start))
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.end_headers()
        if self.command == "HEAD":
            return
        if (stall := self.hub.stall_after.get(name)) is not None:
            self.wfile.write(content[start : start + stall])
            self.wfile.flush()
            with suppress(OSError):
                self.connection.recv(1)  # until the other side is gone
            self.close_connection = True
            return
        limit = self.hub.break_off_after.get(name)
        self.wfile.write(content[start:] if limit is None else content[start : start + limit])
        if limit is not None and start + limit < len(content):
            self.wfile.flush()
            self.connection.close()
            self.close_connection = True


def _entry(name: str, content: bytes) -> dict[str, object]:
    blob = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
    told: dict[str, object] = {"type": "file", "path": name, "size": len(content), "oid": blob}
    if len(content) > LARGE:
        told["lfs"] = {"size": len(content), "oid": hashlib.sha256(content).hexdigest(), "pointerSize": 130}
    return told


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    """The hub, answering on a free port of this machine."""
    handler = type("Handler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        hub.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join()
