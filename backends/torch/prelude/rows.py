import torch
import torch.distributed as dist

from .layout import Layout, whole_of
from .mesh import MESHES, device, world
from .moves import rows_arriving, waited, zero_padded


def is_plain(value):
    """Whether an optimizer's value is the same on every rank: a number, like the count of its steps."""
    return not torch.is_tensor(value) or value.dim() == 0


def state_rows(name, key, value, shard):
    """What an optimizer keeps for a parameter, as rows_of: a tensor lies as the parameter does."""
    if is_plain(value):
        return value
    if value.shape != shard.shape:
        raise ValueError(f"the optimizer's {key} of {name} is {tuple(value.shape)}, not {tuple(shard.shape)} as the "
                         "parameter; checkpoints know no layout for it")
    return rows_of(value, shard.sharding)


def row_mesh():
    """All ranks of the mesh, in one row."""
    if "rows" not in MESHES:
        MESHES["rows"] = (dist.device_mesh.DeviceMesh.from_group(world(), device().type) if "stage" in MESHES else
                          dist.device_mesh.init_device_mesh(device().type, (dist.get_world_size(),)))
    return MESHES["rows"]


def rows_of(local, layout):
    """A tensor as a DTensor of which each rank has some rows; a number as it is."""
    whole = whole_of(local, layout)
    return whole if whole.dim() == 0 else dtensor_of(whole[row_slice(whole.shape[0])].clone(), layout.shape)


def empty_rows(shape, dtype):
    """As rows_of, with nothing in it yet."""
    if len(shape) == 0:
        return torch.zeros(shape, dtype=dtype)
    here = row_slice(shape[0])
    return dtensor_of(torch.zeros((here.stop - here.start, *shape[1:]), dtype=dtype, device=device()), shape)


def empty_entry(entry):
    """What an entry of a checkpoint is read into: rows, or nothing where it is no tensor."""
    return empty_rows(tuple(entry.size), entry.properties.dtype) if hasattr(entry, "size") else None


def row_slice(rows):
    """The rows that this rank has of so many."""
    share, here = -(-rows // dist.get_world_size(world())), dist.get_rank(world())
    return slice(min(rows, here * share), min(rows, (here + 1) * share))


def dtensor_of(rows, shape):
    """The DTensor of this shape of which this rank has these rows."""
    from torch.distributed.tensor import DTensor, Shard

    stride = torch.empty(shape, device="meta").stride()
    return DTensor.from_local(rows, row_mesh(), [Shard(0)], run_check=False, shape=torch.Size(shape), stride=stride)


def whole_of_rows(value):
    """The whole of what rows_of gave, or of another DTensor; anything else as it is."""
    if not hasattr(value, "full_tensor"):
        return value
    from torch.distributed.tensor import Shard

    if value.device_mesh != row_mesh() or tuple(value.placements) != (Shard(0),):
        return value.full_tensor()
    rows, ranks = value.to_local().contiguous(), dist.get_world_size(world())
    share = -(-value.shape[0] // ranks)
    sent = zero_padded(rows, 0, share).view(-1)
    arriving = rows_arriving(sent, ranks, row_mesh().get_group().group_name)
    return waited(arriving).view(ranks * share, *value.shape[1:])[:value.shape[0]]


def state_part(value, shard):
    """This rank's part of what state_rows gave, or of any whole tensor; a part as it is."""
    if is_plain(value):
        return value
    whole = whole_of_rows(value)
    return shard.sharding.cut(whole) if tuple(whole.shape) == shard.sharding.shape else whole


def follow(optimizer):
    """From now on the optimizer's state_dict() has whole tensors in rows, and load_state_dict() takes them. All ranks call these."""
    followed = optimizer.__dict__.setdefault("followed_by", [])
    if follow not in followed:  # that of another program may be
        followed.append(follow)
        optimizer.register_state_dict_post_hook(put_state_rows)
        optimizer.register_load_state_dict_pre_hook(take_state_parts)


def put_state_rows(optimizer, state):
    """The state dict of an optimizer for torch.distributed.checkpoint."""
    return with_entries(optimizer, state, lambda key, value, shard: state_rows(shard.storing.name, key, value, shard))


def take_state_parts(optimizer, state):
    """One of this rank's parts."""
    return with_entries(optimizer, state, lambda _, value, shard: state_part(value, shard))


def with_entries(optimizer, state, change):
    """The state dict of an optimizer with what it keeps for shards changed."""
    names, shards = ([p for each in groups for p in each["params"]] for groups in (state["param_groups"], optimizer.param_groups))
    named = {name: shard for name, shard in zip(names, shards) if is_shard(shard)}
    return {**state, "state": {name: {key: change(key, value, named[name]) if name in named else value for key, value in entries.items()}
                               for name, entries in state["state"].items()}}


def is_shard(x):
    """Whether it is a parameter's shard, of this program."""
    return isinstance(getattr(x, "sharding", None), Layout)
