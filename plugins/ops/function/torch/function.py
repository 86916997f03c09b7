FUNCTIONS = {}  # by name: the model's own autograd functions, which whoever runs the program puts here


def function(name, *tensors):
    """What a function of the model gives, whose forward and backward are its own; the same on every rank."""
    if name not in FUNCTIONS:
        raise RuntimeError(f"the model's own function {name} is not known to its program: put it into FUNCTIONS, called with "
                           "tensors, before the first forward")
    return FUNCTIONS[name](*tensors)
