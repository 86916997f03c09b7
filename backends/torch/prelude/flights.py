import torch

from .moves import begin_together, end_together


class Flight:
    """Tensors on their way, each through moves of its own and all by one route, beside the computing: on a GPU on a stream
    for what travels, loads or gradients.
    """

    @torch.no_grad()
    def __init__(self, ways, xs, what):
        self.stages, self.xs, self.begun, self.event = [*zip(*ways)], list(xs), None, None
        if not xs[0].is_cuda:
            self.begin()
            return
        stream = side_stream(xs[0].device, what)
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.begin()
            while self.stages:
                self.step()
        for x in xs:
            x.record_stream(stream)
        self.event = stream.record_event()

    def begin(self):
        """Begins the next moves."""
        if self.stages:
            self.begun, self.xs = begin_together(self.stages[0], self.xs), None

    @torch.no_grad()
    def step(self):
        """Ends moves, and begins the next ones."""
        if self.stages:
            self.xs, self.begun = end_together(self.stages.pop(0), self.begun), None
            self.begin()

    def take(self):
        """What arrives."""
        while self.stages:
            self.step()
        if self.event is not None:
            torch.cuda.current_stream().wait_event(self.event)
            for x in self.xs:
                x.record_stream(torch.cuda.current_stream())
        return self.xs


SIDE_STREAMS = {}  # by device and what travels


def side_stream(device, what):
    """The stream on which loads or gradients travel."""
    if (device, what) not in SIDE_STREAMS:
        SIDE_STREAMS[device, what] = torch.cuda.Stream(device)
    return SIDE_STREAMS[device, what]


def range_named(what, shards):
    """A range in traces of torch.profiler."""
    names = [shard.storing.name for shard in shards]
    text = names[0] if len(names) == 1 else f"{len(names)} from {names[0]} to {names[-1]}"
    return torch.autograd.profiler.record_function(f"meshwright: {what} {text}")
