"""A notebook in a real JupyterLab in a real Chromium, for tests that must see what a person sees.

Only how to open, run, press and read; what must be seen is in the tests.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Locator, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from servers import START

# The page's own indicator says idle before there is a kernel, so its session is asked.
IDLE = """() => {
    const kernel = window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel;
    return kernel?.connectionStatus === 'connected' && kernel.status === 'idle';
}"""
# The largest x of the first line whose name starts so, in the last plot that has one: from what plotly has drawn, not
# from what it was sent.
LINE_END = """name => {
    const plot = [...document.querySelectorAll('.jp-OutputArea .js-plotly-plot')]
        .filter(p => p.calcdata && p.data.some(line => line.name?.startsWith(name))).at(-1);
    if (!plot) return 0;
    const points = plot.calcdata[plot.data.findIndex(line => line.name?.startsWith(name))];
    return Math.max(0, ...points.map(point => point.x).filter(Number.isFinite));
}"""
# The output that the last dashboard is in. Other outputs of a notebook have plots and buttons too.
DASHBOARD = """[...document.querySelectorAll('.jp-OutputArea-output')]
    .filter(o => o.querySelector('.widget-toggle-buttons') && o.querySelector('.js-plotly-plot')).at(-1)"""
# What a reader cannot see whole: words that their box is too narrow for, and what reaches beyond the last dashboard.
CUT_OFF = f"""() => {{
    const output = {DASHBOARD};
    const right = output.getBoundingClientRect().right + 1;
    const beyond = [...output.querySelectorAll('button, th, td, .js-plotly-plot text')].filter(
        e => e.textContent.trim() && e.getBoundingClientRect().right > right);
    const narrow = [...output.querySelectorAll('button, .widget-label, .widget-html-content')].filter(
        e => e.scrollWidth > e.clientWidth + 1);
    return [...new Set([...beyond, ...narrow].map(e => e.textContent.trim()).filter(words => words))];
}}"""
# The status line's word for a run that was stopped; `lab` is the dashboard.
STOPPED = "[...lab.querySelectorAll('.widget-html-content b')].some(b => b.textContent === 'stopped')"
# Puts the milliseconds from the next such event to the frame in which the condition is met into `window.waited`.
WATCH = """() => {{
    const lab = {dashboard}, before = {before};
    let pressed = null;
    window.waited = null;
    document.addEventListener('{event}', e => {{ pressed = e.timeStamp; }}, {{capture: true, once: true}});
    const observer = new MutationObserver(() => {{
        if (pressed === null || !({condition})) return;
        observer.disconnect();
        requestAnimationFrame(() => {{ window.waited = performance.now() - pressed; }});
    }});
    observer.observe(lab, {{subtree: true, childList: true, characterData: true, attributes: true}});
}}"""


class Notebook:
    """One open notebook: what a person can do with it and see in it."""

    def __init__(self, browser: Browser, address: str, name: str) -> None:
        self.errors: list[str] = []
        self.page: Page = browser.new_page(viewport={"width": 1400, "height": 1100})
        self.page.set_default_timeout(1000 * START)
        self.page.on("console", lambda said: self.errors.append(said.text[:500]) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)[:500]))
        self.page.goto(f"{address}/lab/tree/{name}?reset", timeout=1000 * START)
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=1000 * START)
        self.idle(START)

    def idle(self, seconds: float) -> None:
        """Wait until the kernel has nothing to do."""
        self.page.wait_for_function(IDLE, timeout=1000 * seconds)

    def run_all(self, seconds: float) -> None:
        """Run every cell and wait until the last one has run."""
        self.page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
        prompts = ".jp-Notebook .jp-CodeCell .jp-InputPrompt"
        self.page.wait_for_function(
            r"css => [...document.querySelectorAll(css)].every(p => /\[\d+\]/.test(p.textContent))",
            arg=prompts,
            timeout=1000 * seconds,
        )
        self.idle(seconds)

    def button(self, name: str) -> Locator:
        """The dashboard's button of that name; the last one where a notebook has several dashboards."""
        return self.page.locator(".jp-OutputArea").get_by_role("button", name=name, exact=True).last

    def press(self, name: str, seconds: float = START) -> None:
        """Press a button once it can be pressed."""
        self.button(name).click(timeout=1000 * seconds)

    def clock(self, act: Callable[[], None], event: str, condition: str, before: str = "null") -> float:
        """Milliseconds from the event that `act` causes to the frame that meets the condition, by the page's own clock.

        Condition and before are JavaScript of `lab`, the dashboard; the condition is asked at each change of it.
        """
        self.page.evaluate(WATCH.format(dashboard=DASHBOARD, event=event, condition=condition, before=before))
        act()
        return float(self.page.wait_for_function("() => window.waited", timeout=1000 * START, polling=100).json_value())

    def slow_down(self, times: float) -> None:
        """Have the page run so many times slower than this machine could."""
        session = self.page.context.new_cdp_session(self.page)
        session.send("Emulation.setCPUThrottlingRate", {"rate": times})

    def field(self, label: str) -> Locator:
        """The control with that label."""
        return self.page.locator(".jp-OutputArea .jupyter-widgets.widget-inline-hbox").filter(
            has=self.page.locator(".widget-label", has_text=label)
        )

    def slide(self, label: str, value: int) -> None:
        """Type a slider's value into its readout, as a person would for an exact number."""
        readout = self.field(label).locator(".widget-readout").last
        readout.click()
        readout.fill(str(value))
        readout.press("Enter")
        expect(readout).to_have_text(str(value), timeout=1000 * START)

    def type(self, label: str, value: object) -> None:
        """Type into a text or number field."""
        box = self.field(label).locator("input").last
        box.fill(str(value))
        box.press("Enter")

    def write(self, label: str, text: str) -> None:
        """Write into a field of several lines, and leave it."""
        box = self.field(label).locator("textarea").last
        box.fill(text)
        box.blur()

    def choose(self, label: str, option: str) -> None:
        """Choose from a menu."""
        self.field(label).locator("select").last.select_option(label=option)

    def size(self, width: int, height: int) -> None:
        """Resize the window, and wait until the page has followed and the plots are as wide as their places."""
        self.page.set_viewport_size({"width": width, "height": height})
        # JupyterLab lays itself out in the frame after the event, plotly in one after that.
        self.page.evaluate(
            "async () => { for (let i = 0; i < 5; i++) await new Promise(next => requestAnimationFrame(next)); }"
        )
        self.page.wait_for_function(
            "() => [...document.querySelectorAll('.jp-OutputArea .js-plotly-plot')].every("
            "p => Math.abs(p.querySelector('svg').getBoundingClientRect().width - p.clientWidth) < 2)",
            timeout=1000 * START,
        )

    def cut_off(self, seconds: float = START) -> list[str]:
        """Words in the last dashboard that cannot be read whole, once so much time to lay it out has passed."""
        try:
            self.page.wait_for_function(f"() => ({CUT_OFF})().length === 0", timeout=1000 * seconds)
        except PlaywrightTimeout:
            return list(self.page.evaluate(CUT_OFF))
        return []

    def top_of_plot(self) -> float:
        """Where the dashboard's plot begins, in pixels below the top of the last dashboard."""
        return float(
            self.page.evaluate(
                f"() => {{ const lab = {DASHBOARD}; return lab.querySelector('.js-plotly-plot')"
                ".getBoundingClientRect().top - lab.getBoundingClientRect().top; }"
            )
        )

    def text(self) -> str:
        """All that the outputs say."""
        return "\n".join(self.page.locator(".jp-OutputArea-output").all_inner_texts())

    def await_text(self, pattern: str, seconds: float) -> str:
        """Wait until the outputs' text matches the pattern (JavaScript's); return what matched."""
        self.page.wait_for_function(
            "p => [...document.querySelectorAll('.jp-OutputArea-output')].some(e => e.innerText.match(p))",
            arg=pattern,
            timeout=1000 * seconds,
        )
        return str(
            self.page.evaluate(
                "p => [...document.querySelectorAll('.jp-OutputArea-output')]"
                ".map(e => e.innerText.match(p)).filter(m => m).at(-1)?.[0] ?? ''",
                pattern,
            )
        )

    def await_number(self, pattern: str, beyond: int, seconds: float) -> int:
        """Wait until the number that the pattern captures in the outputs is beyond another; return it."""
        found = self.page.wait_for_function(
            "([p, beyond]) => [...document.querySelectorAll('.jp-OutputArea-output')]"
            ".map(e => Number(e.innerText.match(p)?.[1] ?? NaN)).filter(n => n > beyond).at(-1)",
            arg=[pattern, beyond],
            timeout=1000 * seconds,
        )
        return int(found.json_value())

    def drawn(self, name: str) -> float:
        """How far right the last plot has drawn the line of that name; 0 before its first point."""
        return float(self.page.evaluate(f"({LINE_END})", name))

    def await_line(self, name: str, condition: str, than: float, seconds: float = START) -> float:
        """Wait until the end of the line of that name is `>` or `<` than a number, and return it."""
        self.page.wait_for_function(
            f"([name, than]) => ({LINE_END})(name) {condition} than", arg=[name, than], timeout=1000 * seconds
        )
        return self.drawn(name)

    def ask(self, code: str, seconds: float = START) -> str:
        """Run code in the notebook's kernel, in a new cell at its end, and return what it prints."""
        self.page.evaluate(
            """async code => {
                const {commands, shell} = window.jupyterapp;
                const notebook = shell.currentWidget.content;
                notebook.activeCellIndex = notebook.widgets.length - 1;
                await commands.execute('notebook:insert-cell-below');
                notebook.activeCell.model.sharedModel.setSource(code);
                await commands.execute('notebook:run-cell');
            }""",
            code,
        )
        self.idle(seconds)
        outputs: list[dict[str, Any]] = self.page.evaluate(
            "window.jupyterapp.shell.currentWidget.content.activeCell.outputArea.model.toJSON()"
        )
        if any(output["output_type"] == "error" for output in outputs):
            raise AssertionError(f"{code} raised {outputs}")
        return "".join("".join(output.get("text", "")) for output in outputs if output.get("name") == "stdout")

    def shot(self, path: Path) -> None:
        """A picture for whoever looks into a failure."""
        self.page.screenshot(path=str(path))
