"""What watching costs: updates a second with the live view on and off.

    python benchmarks/live_view.py [--workers 8] [--updates 1500] [--repeats 5] [--json]

Both sides run in one real Jupyter kernel, so that every frame is made, packed and sent as it is in JupyterLab. No
browser draws it: that is another process, on cores that a run leaves free. The sides take turns, and the ratio is the
median over pairs.
"""

import argparse
import json
import statistics

from jupyter_client.manager import start_new_kernel

PREPARE = """
import json, time
from asyncsgd_edu import AsyncTrainer, Digits, LiveView, configure_devices
configure_devices(8)
view = LiveView()
trainer = AsyncTrainer(Digits("cnn"), workers={workers})
trainer.fit(updates=100)
"""
SHOW = "view"
RUN = """
trainer.reset()
start = time.perf_counter()
trainer.start(updates={updates})
{watch}
trainer.wait()
rate = {updates} / (time.perf_counter() - start)
view.wait()
print(json.dumps(rate))
"""


def ask(client, code: str) -> str:
    """Run code in the kernel and return what it prints."""
    said: list[str] = []

    def hear(message: dict) -> None:
        content = message["content"]
        if message["msg_type"] == "stream" and content["name"] == "stdout":
            said.append(content["text"])
        if message["msg_type"] == "error":
            raise RuntimeError("\n".join(content["traceback"]))

    client.execute_interactive(code, output_hook=hear, timeout=300)
    return "".join(said)


def main() -> None:
    """Print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--updates", type=int, default=1500)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        ask(client, PREPARE.format(workers=options.workers))
        ask(client, SHOW)
        rates: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(options.repeats):
            for watched in (False, True):
                watch = "view.watch(trainer)" if watched else ""
                code = RUN.format(watch=watch, updates=options.updates)
                rates[watched].append(float(ask(client, code)))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    ratio = statistics.median(on / off for off, on in zip(rates[False], rates[True], strict=True))
    found = {"off": statistics.median(rates[False]), "on": statistics.median(rates[True]), "ratio": ratio}
    if options.json:
        print(json.dumps(found))
    else:
        print(f"updates/s, Digits cnn, {options.workers} threads: view off {found['off']:.0f}, on {found['on']:.0f}")
        print(f"on / off, median of {options.repeats} pairs: {ratio:.3f}")


if __name__ == "__main__":
    main()
