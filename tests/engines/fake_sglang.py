"""An environment whose `sglang.launch_server` answers at once and misbehaves on request; a real process without a model."""

from __future__ import annotations

import json
import venv
from dataclasses import replace
from pathlib import Path

from stair.config.engines import SGLangSettings
from stair.engines.base import Request
from stair.engines.sglang.engine import SGLangEngine
from tests.engines.sglang_cases import request

DIE, REFUSE, FAIL = range(100, 103)
"""First ids of prompts that make the server misbehave."""
RETRACT = 104
"""The first id of a prompt that is retracted while more than two requests are under way."""

_PROGRAM = """
import json, os, signal, subprocess, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

given = dict(zip(sys.argv[1:], sys.argv[2:]))
settings = json.loads(os.environ.get("FAKE_SGLANG", "{}"))
print("x" * 100_000 + "\\nRuntimeError: no such thing", flush=True)
if settings.get("family"):  # a scheduler, which stays in its parent's group
    subprocess.Popen(["sleep", "600"])
if settings.get("start") == "die":
    sys.exit(3)
facts = {
    "model_path": given["--model-path"], "version": "0.5.23", "dtype": given["--dtype"],
    "attention_backend": given["--attention-backend"], "sampling_backend": "pytorch",
    "enable_deterministic_inference": True, "tp_size": 1, "max_total_num_tokens": 1000,
}
under_way = 0


class Answers(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/server_info":
            self.answer(facts | settings.get("facts", {}))
        else:
            self.answer({}, 503 if settings.get("start") == "never" else 200)

    def do_POST(self):
        global under_way
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        ids, sampling = asked["input_ids"], asked["sampling_params"]
        under_way += 1
        many = under_way > 2
        time.sleep(0.02)
        many |= under_way > 2
        under_way -= 1
        if ids[0] == 100:
            os.kill(os.getpid(), signal.SIGKILL)
        elif ids[0] == 101:
            return self.answer({"error": "it cannot be"}, 400)
        elif ids[0] == 102:
            return self.answer({"error": "it went wrong"}, 500)
        drawn = [10 + sampling["sampling_seed"] % 80, sampling["stop_token_ids"][0]]
        reason = {"type": "stop", "matched": drawn[-1]}
        if sampling["max_new_tokens"] == 1:
            drawn, reason = drawn[:1], {"type": "length", "length": 1}
        self.answer({"output_ids": drawn, "meta_info": {
            "finish_reason": reason, "prompt_tokens": len(ids), "num_retractions": int(ids[0] == 104 and many)}})

    def answer(self, content, status=200):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ThreadingHTTPServer.request_queue_size = 100
ThreadingHTTPServer(("127.0.0.1", int(given["--port"])), Answers).serve_forever()
"""

_MODEL = {
    "model_type": "qwen3", "num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 4, "intermediate_size": 8, "vocab_size": 320, "max_position_embeddings": 100, "tie_word_embeddings": True,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
}  # fmt: skip


def make_environment(folder: Path) -> SGLangSettings:
    """Writes an environment, and a model's folder beside it."""
    venv.create(folder / "env", symlinks=True)
    (packages,) = (folder / "env" / "lib").glob("python3*/site-packages")
    for name, version in (("sglang", "0.5.23"), ("sglang_plain_cpu", "0.1.0")):
        (packages / f"{name}-{version}.dist-info").mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        (packages / f"{name}-{version}.dist-info" / "METADATA").write_text(metadata)
    (packages / "sglang").mkdir()
    (packages / "sglang" / "__init__.py").touch()
    (packages / "sglang" / "launch_server.py").write_text(_PROGRAM)
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text(json.dumps(_MODEL))
    return settings_of(folder)


def settings_of(folder: Path) -> SGLangSettings:
    environment = str(folder / "env")
    return SGLangSettings(environment=environment, device="cpu", attention="torch_native", concurrency=8)


def make_engine(settings: SGLangSettings, **changes: object) -> SGLangEngine:
    """An engine whose server is such a process."""
    folder = settings.environment_folder.parent
    (folder / "server.log").unlink(missing_ok=True)
    changed = settings.model_copy(update=changes)
    return SGLangEngine(changed, folder / "model", "float32", tokens=300, log=folder / "server.log")


def numbered(count: int, first: int = 110) -> list[Request]:
    """Requests whose prompts begin with an id."""
    return [
        replace(request(limit=9), key=f"r{number}", prompt_ids=(first, 120 + number), seed=number)
        for number in range(count)
    ]
