"""Whether a graph is a function of what it is given, so that it can be computed again, bit for bit.

Random numbers that no seed names, variables from elsewhere and what Python remembers from one call to the
next are what a replay cannot repeat. Nothing here knows what the graph is for.
"""

from collections.abc import Callable, Iterator
from typing import Any

from asyncsgd_edu.quiet import tf

# Stateful only in name: they call graphs that are looked at too, look into tables that stay, report, ask which
# algorithm a device has, or (CudnnRNN) have a generator for a dropout of their own that Keras leaves at 0.
HARMLESS = {
    *("Case", "If", "PartitionedCall", "StatefulPartitionedCall", "While"),
    *("HashTableV2", "LookupTableFindV2", "LookupTableSizeV2"),
    *("Assert", "CheckNumerics", "CheckNumericsV2", "Print", "PrintV2"),
    *("CudnnRNNBackpropV3", "CudnnRNNV3", "StatelessRandomGetAlg"),
}
SMALL_FLOATS = {tf.float16.as_datatype_enum: "float16", tf.bfloat16.as_datatype_enum: "bfloat16"}


def check_pure(what: str, trace: Callable[[], Any]) -> None:
    """Raise ValueError, naming the node, unless the graph that `trace` makes always does the same in float32.

    `trace` builds it anew whenever it is called. A node's name says in which layer it lies.
    """
    first = trace()
    for node in _nodes(first):
        reason = _foreign(first, node)
        if reason:
            raise ValueError(f"{what} cannot be computed again from its parameters: {node.name} {reason}")
    if _differ(first, second := trace()):
        # A first time may do more than others. From the second on, every time must be the same.
        name = _differ(second, trace())
        if name:
            raise ValueError(
                f"{what} cannot be computed again from its parameters: {name} is another one each time that the "
                f"graph is built; it comes from Python or NumPy, which remember or draw something of their own"
            )


def _foreign(graph: Any, node: Any) -> str | None:
    """What is wrong with a node."""
    for attribute in node.attr.values():
        if attribute.type in SMALL_FLOATS:
            return f"is of {SMALL_FLOATS[attribute.type]}; everything has to be float32"
    if node.op == "PyFuncStateless":
        return "calls Python"
    if node.op in HARMLESS or not graph.op_def_for_type(node.op).is_stateful:
        return None
    if "PyFunc" in node.op:
        return "calls Python"
    if "Assign" in node.op or "Scatter" in node.op or "Apply" in node.op:
        return f"({node.op}) changes a variable that Keras does not know of"
    if node.op == "ReadVariableOp" or "Gather" in node.op:
        return (
            "reads a variable that is not among the model's own, such as Keras's global random state: a layer that "
            "draws needs a keras.random.SeedGenerator, a layer that stands still no variable"
        )
    return f"({node.op}) draws or keeps something of its own; keras.random with a SeedGenerator can be repeated"


def _nodes(graph: Any) -> Iterator[Any]:
    """All nodes of a graph and of those that it calls, each where it is first called."""
    definition = graph.as_graph_def()
    called = {function.signature.name: function.node_def for function in definition.library.function}
    waiting = [iter(definition.node)]
    while waiting:
        for node in waiting[-1]:
            yield node
            for _, attribute in sorted(node.attr.items()):
                functions = (attribute.func, *attribute.list.func)
                waiting += [iter(called.pop(function.name)) for function in functions if function.name in called]
            break
        else:
            waiting.pop()


def _differ(one: Any, other: Any) -> str | None:
    """The first node of `one` that is not the same in `other`, None if there is none."""
    some, others = list(_nodes(one)), list(_nodes(other))
    for a, b in zip(some, others, strict=False):
        if a.op != b.op or (a.op == "Const" and a.attr["value"] != b.attr["value"]):
            return str(a.name)
    return None if len(some) == len(others) else "the number of nodes"
