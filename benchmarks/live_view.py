"""What watching costs: updates a second with the live view on and off.

    python benchmarks/live_view.py [--workers 8] [--updates 1500] [--repeats 5] [--json]

Both sides run in one real Jupyter kernel, so that every frame is made, packed and sent as it is in JupyterLab. No
browser draws it: that is another process, on cores that a run leaves free. Equal on both sides: the trainer (Digits
cnn, threads, nothing injected), the start (it is reset), the number of updates; timed from `start` to the end of
`wait`. They take turns. No bar is set here.
"""

from jupyter_client.manager import start_new_kernel
from turns import Table, at_least_one, command, medians, ratio, show, take_turns

PREPARE = """
import json, time
from asyncsgd_edu import AsyncTrainer, Digits, LiveView, configure_devices
configure_devices(8)
view = LiveView()
trainer = AsyncTrainer(Digits("cnn"), workers={workers})
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
    """Measure and show."""
    parser = command(__doc__, repeats=5)
    parser.add_argument("--workers", type=at_least_one, default=8, metavar="N", help="threads (8)")
    parser.add_argument("--updates", type=at_least_one, default=1500, metavar="N", help="updates in a run (1500)")
    given = parser.parse_args()
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        ask(client, PREPARE.format(workers=given.workers))
        ask(client, SHOW)
        codes = {"off": "", "on": "view.watch(trainer)"}
        runs = {side: RUN.format(watch=watch, updates=given.updates) for side, watch in codes.items()}
        found = take_turns({side: lambda c=code: float(ask(client, c)) for side, code in runs.items()}, given.repeats)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    row = {"problem": "digits-cnn", "threads": given.workers, **medians(found), "on / off": ratio(found, "on", "off")}
    show([Table("updates a second, live view off and on", [row])], given.json)


if __name__ == "__main__":
    main()
