"""The dashboard's controls: a widget for each field of a `Configuration`, and which of them can be used.

They hold what was chosen and compute nothing; a control that does nothing in the chosen
mode is disabled.
"""

from typing import Any

import ipywidgets as widgets

from asyncsgd_edu.problems.catalogue import PROBLEMS
from asyncsgd_edu.rules.remedies import DelayCompensation
from asyncsgd_edu.view.choices import ACCESS, LAWS, POLICIES, REMEDIES, constant_of, idle
from asyncsgd_edu.view.configuration import MODES, MOST_CONSTANT, MOST_GPUS, Configuration, most_threads
from asyncsgd_edu.view.series import AXES

ROW = {"flex_flow": "row wrap", "align_items": "center"}
# What stands together stays together; the order is the one that takes the fewest lines at 960, 1280 and 1920 pixels.
HOW = (
    ("problem", "learning_rate"), ("duration_law", "duration"), ("policy", "constant"), ("updates",), ("access",),
    ("seed",), ("by",), ("remedy", "drop_bound", "strength"),
)  # fmt: skip
TOOLTIPS = (
    "one thread a worker", "synchronous: one tower a GPU", "in virtual time", "in virtual time, in the order written",
)  # fmt: skip
EVENTS = (
    "0r: worker 0 reads; 0a: it applies its gradient; 0+: its gradient goes into the mean of the next apply; "
    "0d: it is dropped"
)


class Controls(dict[str, Any]):
    """The widgets by the names of the fields, at first with the values of `first`."""

    def __init__(self, first: Configuration) -> None:
        super().__init__()
        slide = {"min": 1, "continuous_update": False}

        def field(name: str, label: str, kind: type[Any], width: str, **more: Any) -> None:
            style, layout = {"description_width": "initial"}, {"width": width, "margin": "2px 12px 2px 2px"}
            self[name] = kind(value=getattr(first, name), description=label, style=style, layout=layout, **more)

        self["mode"] = widgets.ToggleButtons(
            options=MODES, value=first.mode, style={"button_width": "auto"}, tooltips=TOOLTIPS,
            layout={"width": "auto", "margin": "2px 12px 2px 0"},
        )  # fmt: skip
        field("threads", "Threads", widgets.IntSlider, "212px", max=most_threads(first.mode), **slide)
        field("gpus", "GPUs", widgets.IntSlider, "212px", max=MOST_GPUS, **slide)
        field("learning_rate", "Learning rate", widgets.FloatText, "160px", step=0.01)
        field("problem", "Problem", widgets.Dropdown, "180px", options=PROBLEMS)
        field("duration_law", "Injected duration", widgets.Dropdown, "268px", options=LAWS)
        field("duration", "mean, seconds", widgets.FloatText, "160px", step=0.005)
        field("updates", "Updates", widgets.IntText, "146px", step=500)
        field("seed", "Seed", widgets.IntText, "110px")
        field("policy", "Policy", widgets.Dropdown, "196px", options=POLICIES)
        field("constant", "k", widgets.BoundedIntText, "100px", min=0, max=MOST_CONSTANT)
        field("by", "Plot by", widgets.Dropdown, "150px", options=AXES)
        field("access", "Access", widgets.Dropdown, "208px", options=ACCESS)
        field("remedy", "Remedy", widgets.Dropdown, "230px", options=REMEDIES)
        # One of these two stands in the same place.
        field("drop_bound", "drop above", widgets.BoundedIntText, "144px", min=0, max=MOST_CONSTANT)
        field("strength", "strength", widgets.FloatText, "144px", step=0.01)
        field("schedule", "Schedule", widgets.Textarea, "auto", rows=3, continuous_update=False, tooltip=EVENTS)
        self["schedule"].layout.flex = "1 1 300px"

    @property
    def configuration(self) -> Configuration:
        """What they say now. Raises ValueError or TypeError if that cannot be run."""
        return Configuration(**{name: control.value for name, control in self.items()})

    def adapt(self) -> None:
        """Disable those that do nothing now, and name each as in the present mode."""
        mode, policy, law, remedy = (self[name].value for name in ("mode", "policy", "duration_law", "remedy"))
        virtual, strong = mode in ("simulated", "written"), remedy == DelayCompensation.name
        self["threads"].max = most_threads(mode)
        self["threads"].description = "Workers" if virtual else "Threads"
        self["gpus"].description = "GPUs (towers)" if mode == "towers" else "GPUs"
        self["duration_law"].description = "Duration" if virtual else "Injected duration"
        self["constant"].description = constant_of(policy) or "k"
        self["strength"].layout.display = None if strong else "none"
        self["drop_bound"].layout.display = "none" if strong else None
        off = idle(mode, policy, law, remedy)
        for name, control in self.items():
            control.disabled = name in off

    def rows(self) -> list[widgets.HBox]:
        """Who works, and how, in rows that break where the page is narrow."""
        groups = [widgets.HBox([self[name] for name in group]) for group in HOW]
        who = [widgets.Label("Mode"), self["mode"], self["threads"], self["gpus"]]
        return [widgets.HBox(who, layout=ROW), widgets.HBox(groups, layout=ROW)]
