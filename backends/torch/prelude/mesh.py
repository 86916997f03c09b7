import atexit
import math
import os
import sys

import torch
import torch.distributed as dist

AXES = ()  # the sizes of the mesh axes; the emitted program has its own

# By sizes of the axes: the DeviceMesh that start() made; by several axes: the group of `product_group`; and groups by their names.
MESHES = {}

HERE = {"mesh": None}  # see on_mesh


def axes():
    """The sizes of the axes of the mesh that is computed on."""
    return AXES if HERE["mesh"] is None else HERE["mesh"]


class on_mesh:
    """A context in which ranks compute on a mesh of these sizes: they may have a part in several, and by itself it is AXES."""

    def __init__(self, sizes):
        self.sizes = sizes

    def __enter__(self):
        self.before, HERE["mesh"] = HERE["mesh"], self.sizes

    def __exit__(self, *_):
        HERE["mesh"] = self.before


def world():
    """The process group of all ranks of the mesh."""
    return MESHES.get("stage", dist.group.WORLD)


def start():
    """Joins the other ranks, unless that was done before, and makes a process group for each mesh axis."""
    if not dist.is_initialized():
        join(math.prod(axes()))
    if dist.get_world_size(world()) != math.prod(axes()):
        refuse(math.prod(axes()), f"a mesh of {' x '.join(map(str, axes())) or '1'}")
    if axes() not in MESHES:
        if not MESHES:
            atexit.register(forget_meshes)
        names = tuple(f"axis{axis}" for axis in range(len(axes()))) or ("one",)
        MESHES[axes()] = dist.device_mesh.init_device_mesh(device().type, axes() or (1,), mesh_dim_names=names)


def forget_meshes():
    """Lets go of the groups when the process ends. A group that is kept, though it was destroyed, keeps its threads, and
    those of gloo may abort a process that Python has left. What PyTorch caches for DTensors keeps the meshes themselves;
    where the process group was made before this module was imported, functions of PyTorch have it as their default.
    """
    for mesh in MESHES.values():
        getattr(mesh, "_pg_registry", {}).clear()
    MESHES.clear()
    functions = sys.modules.get("torch.distributed.nn.functional")
    for function in vars(functions).values() if functions else ():
        if getattr(function, "__defaults__", None):
            function.__defaults__ = tuple(None if isinstance(each, dist.ProcessGroup) else each for each in function.__defaults__)


def join(ranks):
    """Makes the default process group: of what torchrun started, or of this process alone."""
    fits = int(os.environ.get("WORLD_SIZE", "1")) == ranks
    backend = "nccl" if torch.cuda.is_available() and fits else "gloo"
    if backend == "nccl":
        here, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count()
        if here > gpus:
            if os.environ.get("RANK", "0") == "0":
                print(f"{here} ranks were started on a machine with {gpus} GPU{'s' * (gpus > 1)}, and each needs one of its own; without "
                      "GPUs, which CUDA_VISIBLE_DEVICES= hides, ranks compute on the CPU", file=sys.stderr, flush=True)
            raise SystemExit(1)
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    atexit.register(end_group)


def end_group():
    """Ends the process group that `join` made, if the program has not, when the process ends: gloo's threads may abort a
    process that Python has left. Not after an exception that nobody caught, when other ranks may be gone.
    """
    if dist.is_initialized() and not hasattr(sys, "last_value"):
        dist.destroy_process_group()


def refuse(ranks, what):
    """Ends a program that runs on another number of ranks than it was written for."""
    if dist.get_rank() == 0:
        print(f"This model is sharded over {ranks} ranks ({what}) but runs on {dist.get_world_size()}; "
              f"start it with: torchrun --nproc-per-node {ranks} {os.path.basename(sys.argv[0])}",
              file=sys.stderr, flush=True)
    dist.barrier()  # who ends first ends the others
    raise SystemExit(1)


def device():
    """Where this rank computes."""
    if "nccl" in dist.get_backend():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")


def coordinates(rank=None, sizes=None):
    """Where a rank (without a number: this one) stands on each axis of the mesh, or of one of other sizes; ranks count row-major."""
    rank = dist.get_rank(world()) if rank is None else rank
    found = []
    for size in reversed(axes() if sizes is None else sizes):
        found.append(rank % size)
        rank //= size
    return tuple(reversed(found))


def group(over):
    """The name of the process group of the ranks that differ from this one along a mesh axis only, or along several."""
    if isinstance(over, int) or len(over) == 1:
        return MESHES[axes()].get_group(over if isinstance(over, int) else over[0]).group_name
    if len(over) == len(axes()):
        return world().group_name
    if (axes(), over) not in MESHES:  # all ranks come here for it, in the same order; a pipeline has them all
        MESHES[axes(), over] = product_group(over)
    return MESHES[axes(), over].group_name


def product_group(over):
    """The process group of the ranks that differ from this one along these axes only."""
    rows = {}
    for rank in range(dist.get_world_size()):
        rows.setdefault(tuple(at for axis, at in enumerate(coordinates(rank)) if axis not in over), []).append(rank)
    made, _ = dist.new_subgroups_by_enumeration([*rows.values()])
    return made
