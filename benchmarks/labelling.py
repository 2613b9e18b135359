"""The labelling page on many pictures: how soon it is usable, how soon after an answer the next picture and the labels.

    python benchmarks/labelling.py features.npz cifar10/train.parquet --answers 30

Starts ``eigenview label`` twice on the vectors (the first time the graph is made), answers as the page does, by the
labels of the table, each after the labels of the one before were spread, and prints medians and the server's memory.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from bars import Bar

from eigenview.data import open_images


class Server:
    """The command under way, and a browser's cookie for it."""

    def __init__(self, vectors: Path, source: str, session: Path) -> None:
        self.began = time.monotonic()
        words = [sys.executable, "-m", "eigenview", "label", str(vectors), "--source", source, "--no-browser"]
        self.process = subprocess.Popen([*words, "--session", str(session)], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if (told := re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line)) is not None:
                break
        else:
            raise SystemExit("".join(lines))
        self.listens = time.monotonic() - self.began
        self.address = urlsplit(told[0])
        answer = self.send("GET", f"/?{self.address.query}", headers={})[1]
        self.cookie, self.home = str(answer["set-cookie"]).partition(";")[0], answer["location"]

    def send(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None):
        line = HTTPConnection("127.0.0.1", self.address.port or 0, timeout=600)
        own = {"Cookie": getattr(self, "cookie", ""), "Origin": f"http://{self.address.netloc}"}
        line.request(
            method,
            getattr(self, "home", "/")[:-1] + path,
            body,
            {"Content-Type": "application/json", **own} if headers is None else headers,
        )
        answer = line.getresponse()
        content = answer.read()
        return content, {name.lower(): value for name, value in answer.getheaders()}

    def state(self, path: str = "/api/state") -> dict:
        return json.loads(self.send("GET", path)[0])

    def memory(self) -> float:
        """The most that it ever held, in GB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1e6

    def work(self) -> float:
        """Seconds of a core that it took so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vectors", type=Path)
    parser.add_argument("source")
    parser.add_argument("--answers", type=int, default=30)
    options = parser.parse_args()
    source = open_images(options.source, needs_index=True)
    with tempfile.TemporaryDirectory() as folder:
        first = Server(options.vectors, options.source, Path(folder))
        while not first.state("/api/questions")["queue"]:
            pass
        print(f"first start: first question after {time.monotonic() - first.began:.1f} s, graph and choice included")
        answered, shown, spread = [], [], []
        for _ in range(options.answers):
            queue = first.state("/api/questions")["queue"]
            label = source.classes[source.label(queue[0])] if source.classes else str(source.label(queue[0]))
            ask = json.dumps({"rows": [queue[0]], "label": label, "mode": "ask", "had": [""]}).encode()
            start = time.monotonic()
            state = json.loads(first.send("POST", "/api/answer", ask)[0])
            answered.append(time.monotonic() - start)
            after = state["queue"] or first.state("/api/questions")["queue"]
            first.send("GET", f"/large/{after[0]}")
            shown.append(time.monotonic() - start)
            first.send("GET", f"/api/spread?turn={state['turn']}")
            spread.append(time.monotonic() - start)
        figures = first.state()["figures"]
        print(f"{figures['by_hand']} answers; predicted rightly {figures['accuracy']:.0%} of {figures['tried']}")
        memory = first.memory()
        first.stop()
        second = Server(options.vectors, options.source, Path(folder))
        state = second.state()
        second.send("GET", f"/large/{state['queue'][0]}")
        usable = time.monotonic() - second.began
        second.stop()
        print(f"second start: listens after {second.listens:.1f} s; memory {memory:.2f} GB at most")
        for name, value, target in (
            ("usable", usable, 3.0),
            ("answer-on-disk", statistics.median(answered), 0.3),
            ("next-picture", statistics.median(shown), 0.3),
            ("labels-spread", statistics.median(spread), 1.5),
        ):
            print(Bar(name, value, target, at_most=True))
        print("slowest:", *(f"{max(times):.2f} s" for times in (answered, shown, spread)))


if __name__ == "__main__":
    main()
