"""Orders of reads, applies, means and drops that can have happened, drawn at random."""

from hypothesis import strategies as st


@st.composite
def orders(draw, actions=("apply", "add", "drop"), workers=4, *, batches=True):
    """Events that can follow each other; with some of the batches named, or none."""
    events, holding = [], set()
    for worker, pick, batch in draw(
        st.lists(st.tuples(st.integers(0, workers - 1), st.integers(0, 5), st.integers(0, 40)), max_size=40)
    ):
        if worker in holding:
            events.append((worker, actions[pick % len(actions)]))
        elif batches and batch < 3:
            events.append((worker, "read", batch))
        else:
            events.append((worker, "read"))
        holding ^= {worker}
    return tuple(events)


@st.composite
def forced_orders(draw):
    """How many workers there are, and an order for a ScriptedGate in which every gradient that is read is applied."""
    workers = draw(st.integers(1, 4))
    holding, order = set(), []
    for worker in draw(st.lists(st.integers(0, workers - 1), min_size=2, max_size=24)):
        order.append((worker, "apply" if worker in holding else "read"))
        holding ^= {worker}
    order += [(worker, "apply") for worker in sorted(holding)]
    return workers, order
