"""What an update writes: the parameters and each slot of an optimizer, and by which operation of TensorFlow.

Nothing here is said from memory: a graph is made of one update and looked through.
Under `lock_free` access nothing guards a slot (a momentum, a velocity, a count) but what TensorFlow does
for a single variable, so it matters how it is written. There are three ways, each worse than the one before:

`added`: `assign_add` or `assign_sub` of an amount that is not made of the variable. Nothing is lost, in whatever
order updates come. (The amount may be made of other slots, which others may have changed meanwhile: mixed.)
`moved`: `assign_add` or `assign_sub` of an amount made of what was read there, such as Adam's
`m += (g - m) / 10`. No gradient is lost, but two updates that read the same m both take a tenth of it away.
`overwritten`: `assign` of a value made of what was read. What another update wrote in between is lost. Of
a parameter the stamps count that, as under `read_modify_write`, where every parameter is overwritten; of
a slot nobody does.

Under `consistent` access none of this happens: an update is over before the next begins.

In every class `iterations` is overwritten. So under the other two counts get lost, and what is worked
out from them lags: schedules of the learning rate, the first steps' correction of Adam and its kin. What else
the classes write (in Keras 3.15; a test compares this with what is found there and in later ones):

    Adadelta              added: parameter; overwritten: accumulated_grads, accumulated_delta_vars
    Adafactor             moved: parameter; overwritten: r, c, v
    Adagrad               added: parameter, accumulators
    Adam                  added: parameter; moved: momentums, velocities
    Adam amsgrad=True     added: parameter; moved: momentums, velocities; overwritten: velocity_hats
    AdamW                 moved: parameter, momentums, velocities
    Adamax                added: parameter; moved: m; overwritten: u
    Ftrl                  added: linears; overwritten: parameter, accumulators
    Lamb                  moved: parameter, momentums, velocities
    Lion                  added: parameter; overwritten: momentums
    Muon                  moved: momentums, adam_velocities; overwritten: parameter
    Nadam                 added: parameter; moved: momentums, velocities; overwritten: u_product
    RMSprop               added: parameter; overwritten: velocities
    RMSprop momentum=0.9  added: parameter; overwritten: velocities, momentums
    ScheduleFreeAdamW     added: momentums; moved: velocities; overwritten: parameter
    SGD                   added: parameter
    SGD momentum=0.9      added: parameter; overwritten: momentums
    SGD weight_decay=0.1  moved: parameter
    SGD use_ema=True      added: parameter; overwritten: model_variables_moving_average

MultiOptimizer writes what its optimizers write. With `gradient_accumulation_steps` the accumulated gradients are
overwritten, which `lock_free` access refuses.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from asyncsgd_edu.engines import optimizers
from asyncsgd_edu.quiet import keras, tf

WAYS = ("added", "moved", "overwritten")
OPERATIONS = {"AssignAddVariableOp": "added", "AssignSubVariableOp": "added", "AssignVariableOp": "overwritten"}
SHAPES = ((3,), (2, 2))  # Some optimizers treat a matrix in another way than a vector.


def slots_written(optimizer: keras.optimizers.Optimizer) -> dict[str, str]:
    """How an update of this optimizer writes the parameters and its slots: one of `WAYS` for each that it writes.

    Slots have the names that they have in the optimizer. Where one is written in several ways, it is the worst.

    >>> slots_written(keras.optimizers.SGD(0.1, momentum=0.9))
    {'parameter': 'added', 'iterations': 'overwritten', 'momentums': 'overwritten'}
    """
    own = optimizers.own_copy(optimizer)
    parameters = [tf.Variable(tf.ones(shape)) for shape in SHAPES]
    optimizers.build(own, parameters)
    update = tf.function(lambda *gradients: own.apply(list(gradients), parameters), autograph=False)
    names = {_key(parameter): "parameter" for parameter in parameters} | slot_names(own)
    return writes(update.get_concrete_function(*map(tf.TensorSpec, SHAPES)), names)


def slot_names(optimizer: keras.optimizers.Optimizer) -> dict[int, str]:
    """The name that each of an optimizer's variables has in it, by the identity of the variable's handle."""
    names: dict[int, str] = {}
    for attribute, value in vars(optimizer).items():
        if attribute == "_variables":
            continue  # All of them once more.
        some = [value, *(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())]
        names |= {_key(one.value): attribute.strip("_") for one in some if isinstance(one, keras.Variable)}
    for inner in getattr(optimizer, "optimizers", ()):
        names |= {key: f"{type(inner).__name__}.{name}" for key, name in slot_names(inner).items()}
    return names


def writes(traced: Any, names: Mapping[int, str]) -> dict[str, str]:
    """How a concrete function writes those variables that `names` has a name for, by the identity of their handles."""
    definition = traced.graph.as_graph_def()
    functions = {function.signature.name: function for function in definition.library.function}
    held = {inside.op.name: names[id(outside)] for outside, inside in traced.graph.captures if id(outside) in names}
    found = dict.fromkeys(names.values(), "")
    for name, way in _found(definition.node, held, {}, functions):
        found[name] = max(found[name], way, key=("", *WAYS).index)
    return {name: way for name, way in found.items() if way}


def _key(variable: tf.Variable) -> int:
    return id(variable.handle)


def _found(
    nodes: Iterable[Any], held: Mapping[str, str], made: dict[str, set[str]], functions: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Name and way of each write among `nodes` and in the functions that they call.

    `held` names the variable that a node holds. `made` says of which variables' values a node's result is
    made; it is filled on the way, as a graph lists a node after those that it takes from.
    """
    for node in nodes:
        taken = [source.split(":")[0] for source in node.input if not source.startswith("^")]
        made[node.name] = set().union(*(made.get(source, ()) for source in taken))
        called = [functions[part.func.name] for part in node.attr.values() if part.HasField("func")]
        for function in called:
            arguments = [argument.name for argument in function.signature.input_arg]
            # The last of what it takes: a choice between two functions takes its condition first.
            given = dict(zip(arguments, taken[len(taken) - len(arguments) :], strict=True))
            inner = {name: held[source] for name, source in given.items() if source in held}
            yield from _found(function.node_def, inner, {n: made.get(s, set()) for n, s in given.items()}, functions)
        variable = next((held[source] for source in taken if source in held), None)
        if variable is None or called:
            continue
        if node.op in OPERATIONS:
            way = OPERATIONS[node.op]
            yield variable, "moved" if way == "added" and variable in made[node.name] else way
        elif node.op == "ReadVariableOp":
            made[node.name] = {variable}
        else:
            raise NotImplementedError(f"what {node.op} does to {variable} is not known here")
