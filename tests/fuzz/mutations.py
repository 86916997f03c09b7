"""Changes to model, plan and cluster files that know the format: a JSON value somewhere in a graph, a field of a protocol
buffer, a number in a TOML file. Every function takes a `random.Random`, so a seed repeats a file."""
import copy
import io
import json
import random
import re
import zipfile

NUMBERS = [0, 1, -1, 2, 3, 7, 64, 255, 256, 65536, 2**31 - 1, 2**31, -2**31, 2**32, 2**40, 2**53, 2**62, 2**63 - 1, -2**63, 2**64]
REALS = [0.0, -0.0, 0.5, -1.5, 1e-320, 1e-300, 1e300, 1.7e308, -1e300]
TEXTS = ["", " ", "x", "inf", "-inf", "nan", "Infinity", "NaN", "float32", "int64", "bool", "complex64", "\x00", "\u202e", "a" * 3000, "S0R", "R", "RRRRRRRRRR",
         "S9", "R[R S1 R]", "S0R+P1", "()", "contiguous", "torch.ops.aten.view.default", "1e999", "../../etc/passwd"]
OPS = """linear layer_norm native_layer_norm convolution conv2d view reshape permute transpose.int expand cat stack split.Tensor split_with_sizes
slice.Tensor select.int index.Tensor index_select gather scatter.src scatter_add embedding embedding_bag.padding_idx _embedding_bag softmax.int
log_softmax.int _softmax matmul mm bmm addmm baddbmm einsum sum.dim_IntList mean.dim mean sum amax argmax max.dim topk sort cumsum where.self
masked_fill.Scalar scaled_dot_product_attention batch_norm _native_batch_norm_legit_functional group_norm native_group_norm instance_norm
max_pool2d avg_pool2d adaptive_avg_pool2d max_pool2d_with_indices constant_pad_nd reflection_pad2d upsample_nearest2d.vec upsample_bilinear2d.vec
pixel_shuffle unfold im2col col2im one_hot nll_loss_nd cross_entropy_loss mse_loss arange arange.start_step full zeros ones rand eye tril triu
diagonal flip roll repeat tile unbind.int chunk squeeze.dim squeeze unsqueeze clone _to_copy view_as_real view.dtype var.correction std.dim
linalg_vector_norm prod.dim_int cdist grid_sampler meshgrid scatter_reduce.two index_put masked_scatter rms_norm weight_norm _weight_norm glu
dropout native_dropout copy add.Tensor mul.Tensor div.Tensor pow.Tensor_Scalar prelu lerp.Tensor addcmul clamp gelu flatten.using_ints
unflatten.int t alias select_scatter slice_scatter repeat_interleave.self_int cosine_similarity broadcast_tensors logsumexp _grouped_mm
convolution_backward native_layer_norm_backward embedding_dense_backward slice_backward avg_pool2d_backward""".split()


def walk(value, path=()):
    """Every place in a JSON value: (container, key)."""
    places = []
    stack = [value]
    while stack:
        here = stack.pop()
        items = here.items() if isinstance(here, dict) else enumerate(here) if isinstance(here, list) else ()
        for key, child in items:
            places.append((here, key))
            if isinstance(child, (dict, list)):
                stack.append(child)
    return places


def other_value(rng, old, places):
    kind = rng.random()
    if isinstance(old, bool):
        return not old if kind < 0.6 else rng.choice([None, 0, "true", []])
    if isinstance(old, int):
        if kind < 0.25:
            return old + rng.choice([-1, 1, 2, -2])
        if kind < 0.4:
            return rng.choice([-old, old * 2, old // 2, old * old])
        if kind < 0.8:
            return rng.choice(NUMBERS)
        return rng.choice([None, 1.5, "1", [], {}, True])
    if isinstance(old, float):
        return rng.choice(REALS) if kind < 0.8 else rng.choice(NUMBERS + [None, "x", []])
    if isinstance(old, str):
        if kind < 0.5:  # another text of the file: a name where another one stood
            texts = [c[k] for c, k in rng.sample(places, min(len(places), 40)) if isinstance(c[k], str)]
            if texts:
                return rng.choice(texts)
        return rng.choice(TEXTS) if kind < 0.9 else rng.choice([None, 0, [], {}])
    if isinstance(old, list):
        changed = list(old)
        if changed and kind < 0.3:
            changed.pop(rng.randrange(len(changed)))
        elif changed and kind < 0.6:
            changed.insert(rng.randrange(len(changed) + 1), copy.deepcopy(rng.choice(changed)))
        elif len(changed) > 1 and kind < 0.8:
            i, j = rng.sample(range(len(changed)), 2)
            changed[i], changed[j] = changed[j], changed[i]
        else:
            changed = rng.choice([[], None, {}, 0])
        return changed
    if isinstance(old, dict):
        changed = dict(old)
        if changed and kind < 0.7:
            changed.pop(rng.choice(list(changed)))
        else:
            changed = rng.choice([{}, None, [], 0])
        return changed
    return rng.choice([0, "", [], {}, False, 1.5])


def mutate_json(rng, value, times=None):
    for _ in range(times or rng.choice([1, 1, 1, 2, 3])):
        places = walk(value)
        if not places:
            return value
        container, key = rng.choice(places)
        if rng.random() < 0.02:
            deep = nested = []
            for _ in range(rng.choice([400, 600, 3000])):
                nested.append([])
                nested = nested[0]
            container[key] = deep
            continue
        container[key] = other_value(rng, container[key], places)
    return value


def pick(rng, nodes, times=1):
    return [rng.choice(nodes) for _ in range(times)] if nodes else []


def mutate_exported(rng, program):
    """The graph of a .pt2 file: another op, arguments that are missing, swapped or of another kind, other types."""
    graph = program["graph_module"]["graph"]
    tensors = list(graph["tensor_values"].values())
    what = rng.randrange(8)
    for node in pick(rng, graph["nodes"], rng.choice([1, 1, 2])):
        inputs = node["inputs"]
        if what == 0:
            node["target"] = "torch.ops.aten." + rng.choice(OPS) + rng.choice(["", ".default"])
        elif what == 1 and inputs:
            inputs.pop(rng.randrange(len(inputs)))
        elif what == 2 and inputs:
            one, two = rng.choice(inputs), rng.choice(inputs)
            one["arg"], two["arg"] = two["arg"], one["arg"]
        elif what == 3 and inputs:
            rng.choice(inputs)["arg"] = rng.choice([{"as_none": True}, {"as_int": rng.choice(NUMBERS)}, {"as_ints": [rng.choice(NUMBERS) for _ in range(rng.randrange(5))]},
                                                   {"as_float": rng.choice(REALS)}, {"as_bool": True}, {"as_string": rng.choice(TEXTS)}, {"as_tensors": []},
                                                   {"as_scalar_type": rng.randrange(1, 14)}])
        elif what == 4:
            tensor = rng.choice(tensors)
            sizes = tensor["sizes"]
            change = rng.randrange(3)
            if change == 0 or not sizes:
                sizes.insert(rng.randrange(len(sizes) + 1), {"as_int": rng.choice([0, 1, 2, 3, 4, 64])})
            elif change == 1:
                sizes.pop(rng.randrange(len(sizes)))
            else:
                sizes[rng.randrange(len(sizes))] = {"as_int": rng.choice(NUMBERS + [0, 0, 1, 3, 5])}
        elif what == 5:
            rng.choice(tensors)["dtype"] = rng.randrange(0, 15)
        elif what == 6 and inputs:
            ints = [i for i in inputs if "as_ints" in i["arg"] or "as_int" in i["arg"]]
            for one in pick(rng, ints):
                if "as_int" in one["arg"]:
                    one["arg"]["as_int"] = rng.choice(NUMBERS)
                elif one["arg"]["as_ints"]:
                    one["arg"]["as_ints"][rng.randrange(len(one["arg"]["as_ints"]))] = rng.choice(NUMBERS + [0, -1, -2, 3])
        elif what == 7:
            node["target"] = "torch.ops.aten." + rng.choice(OPS)
            rng.choice(tensors)["dtype"] = rng.randrange(0, 15)
    return program


def mutate_plan(rng, plan):
    """A plan: its graph as above, layouts, conversions, microbatches."""
    graph = plan["graph"]
    what = rng.randrange(10)
    for node in pick(rng, graph["nodes"], rng.choice([1, 1, 2])):
        operands, attributes = node["operands"], node["attributes"]
        if what == 0:
            node["op"] = "aten." + rng.choice(OPS)
        elif what == 1 and operands:
            operands.pop(rng.randrange(len(operands)))
        elif what == 2 and operands:
            rng.choice(operands)[rng.randrange(2)] = rng.choice(["self", "weight", "bias", "input", 0, 1, 5])
        elif what == 3 and attributes:
            key = rng.choice(list(attributes))
            if rng.random() < 0.3:
                del attributes[key]
            else:
                attributes[key] = other_value(rng, attributes[key], [(attributes, key)])
        elif what == 4:
            value = rng.choice(graph["values"])
            value[2] = other_value(rng, value[2], [(value, 2)]) or []
            if value[2] and rng.random() < 0.7:
                value[2][rng.randrange(len(value[2]))] = rng.choice(NUMBERS + [0, 1, 3, 5])
        elif what == 5:
            rng.choice(graph["values"])[1] = rng.choice(["uint8", "int64", "bool", "complex64", "float64", "bfloat16", "int32"])
        elif what == 6:
            variable = rng.choice(plan["variables"])
            mutate_json(rng, variable, 1)
        elif what == 7 and plan["conversions"]:
            mutate_json(rng, rng.choice(plan["conversions"]), 1)
        elif what == 8:
            mutate_json(rng, plan[rng.choice(["cluster", "mesh", "training"])], 1)
        elif what == 9:
            ports = [p for v in plan["variables"] for p in v.get("operands", []) + v.get("results", [])]
            for port in pick(rng, ports):
                port["layout"] = rng.choice(TEXTS + ["S1R", "S0", "S1", "RS0R", "S01R", "RR+P0", "R+P0"])
    return plan


# --- protocol buffers ---

def varint(number):
    made = bytearray()
    number &= 2**64 - 1
    while True:
        made.append(number & 0x7F | (0x80 if number > 0x7F else 0))
        number >>= 7
        if number == 0:
            return bytes(made)


def read_varint(data, at):
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at
        if shift > 63:
            raise ValueError


def fields_of(data):
    """[number, wire type, content] of a message; ValueError or IndexError if it is none."""
    fields, at = [], 0
    while at < len(data):
        key, at = read_varint(data, at)
        number, wire = key >> 3, key & 7
        if number == 0 or number > 10000:
            raise ValueError
        if wire == 0:
            content, at = read_varint(data, at)
        elif wire == 2:
            size, at = read_varint(data, at)
            if at + size > len(data):
                raise ValueError
            content, at = data[at:at + size], at + size
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            content, at = data[at:at + size], at + size
            if len(content) < size:
                raise ValueError
        else:
            raise ValueError
        fields.append([number, wire, content])
    return fields


def write_fields(fields):
    made = b""
    for number, wire, content in fields:
        made += varint(number << 3 | wire)
        made += varint(content) if wire == 0 else varint(len(content)) + content if wire == 2 else content
    return made


def mutate_protobuf(rng, data, depth=0):
    try:
        fields = fields_of(data)
    except (ValueError, IndexError):
        fields = []
    if not fields:
        return rng.choice([b"", data[:len(data) // 2], data + data, rng.choice(TEXTS).encode(), varint(rng.choice(NUMBERS))])
    at = rng.randrange(len(fields))
    # A model's graph is one of a few fields, and its nodes are most of that: go down rather than stay.
    if depth == 0 and rng.random() < 0.9:
        at = max(range(len(fields)), key=lambda i: len(fields[i][2]) if fields[i][1] == 2 else 0)
    number, wire, content = fields[at]
    if wire == 2 and content and rng.random() < (0.95 if depth == 0 else 0.75):
        if depth > 0 and len(content) < 200 and rng.random() < 0.3:
            fields[at][2] = rng.choice([rng.choice(TEXTS).encode(), rng.choice(fields)[2] if isinstance(rng.choice(fields)[2], bytes) else b"x"])
            if not isinstance(fields[at][2], bytes):
                fields[at][2] = b"x"
        else:
            fields[at][2] = mutate_protobuf(rng, content, depth + 1)
        return write_fields(fields)
    change = rng.randrange(4)
    if change == 0:
        fields.pop(at)
    elif change == 1:
        fields.insert(at, list(rng.choice(fields)))
    elif change == 2:
        j = rng.randrange(len(fields))
        fields[at], fields[j] = fields[j], fields[at]
    elif wire == 0:
        fields[at][2] = rng.choice(NUMBERS + [content + 1, content - 1, 2, 3, 4, 5, 6, 7]) & (2**64 - 1)
    elif wire == 2:
        fields[at][2] = rng.choice([b"", rng.choice(TEXTS).encode()])
    else:
        fields[at][2] = bytes(rng.randrange(256) for _ in content)
    return write_fields(fields)


# --- archives, texts, bytes ---

def mutate_bytes(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice([1, 2, 8])):
        if not data:
            break
        change, at = rng.randrange(4), rng.randrange(len(data))
        if change == 0:
            data[at] = rng.randrange(256)
        elif change == 1:
            del data[at:at + rng.choice([1, 4, 100, 5000])]
        elif change == 2:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.choice([1, 4, 16])))
        else:
            data[at:at + 4] = rng.choice([0, 1, 2**31, 2**32 - 1]).to_bytes(4, "little")
    return bytes(data)


def entries_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(info.filename, archive.read(info)) for info in archive.infolist()]


def zipped(entries, compressed=False):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED) as archive:
        for name, content in entries:
            archive.writestr(zipfile.ZipInfo(name), content)
    return made.getvalue()


def mutate_pt2(rng, data):
    if rng.random() < 0.08:
        return mutate_bytes(rng, data)
    entries = entries_of(data)
    names = [i for i, (name, _) in enumerate(entries) if name.endswith("models/model.json") or name.endswith("exported_program.json")]
    if rng.random() < 0.1:
        i = rng.randrange(len(entries))
        change = rng.randrange(4)
        if change == 0:
            entries.pop(i)
        elif change == 1:
            entries.append((entries[i][0] + "x", entries[i][1]))
        elif change == 2:
            entries[i] = (entries[i][0], mutate_bytes(rng, entries[i][1]))
        else:
            name = rng.choice([n for n, _ in entries if n.endswith(".json")] or [entries[i][0]])
            entries = [(n, json.dumps(mutate_json(rng, json.loads(c))).encode() if n == name and c[:1] == b"{" else c) for n, c in entries]
        return zipped(entries)
    at = names[0]
    program = json.loads(entries[at][1])
    mutate = mutate_exported if rng.random() < 0.75 else mutate_json
    entries[at] = (entries[at][0], json.dumps(mutate(rng, program)).encode())
    return zipped(entries)


def mutate_plan_file(rng, data):
    if rng.random() < 0.05:
        return mutate_bytes(rng, data)
    plan = json.loads(data)
    return json.dumps((mutate_plan if rng.random() < 0.75 else mutate_json)(rng, plan)).encode()


def mutate_onnx(rng, data):
    if rng.random() < 0.05:
        return mutate_bytes(rng, data)
    for _ in range(rng.choice([1, 1, 2])):
        data = mutate_protobuf(rng, data)
    return data


TOML_NUMBERS = ["0", "-1", "1", "3", "2147483648", "9223372036854775807", "-9223372036854775808", "99999999999999999999", "nan", "inf", "-inf", "1e-320",
                "1e308", "1e-300", "0.0", "-0.0", '"8"', "true", "[]", "{}", "1979-05-27"]
TOML_QUANTITIES = ["0", "-1", "nan", "inf", "-inf", "1e308", "1e-320", "1e400", "0.5", "999999999999999999", "1e18", "-1e18"]


def mutate_toml(rng, data):
    text = data.decode("utf-8", "replace")
    for _ in range(rng.choice([1, 1, 2])):
        change = rng.randrange(6)
        lines = text.split("\n")
        i = rng.randrange(len(lines))
        if change == 0:
            lines.pop(i)
        elif change == 1:
            lines.insert(i, rng.choice(lines))
        elif change <= 4:
            found = re.match(r'^(\s*[\w.-]+\s*=\s*)(.*)$', lines[i])
            if found:
                quantity = re.match(r'^"[\d.e+-]+\s*([A-Za-z/]+)"', found[2])
                value = f'"{rng.choice(TOML_QUANTITIES)}{quantity[1]}"' if quantity and rng.random() < 0.7 else rng.choice(TOML_NUMBERS)
                lines[i] = found[1] + value
        else:
            return mutate_bytes(rng, "\n".join(lines).encode())
        text = "\n".join(lines)
    return text.encode()


MUTATE = {".pt2": mutate_pt2, ".json": mutate_plan_file, ".onnx": mutate_onnx, ".toml": mutate_toml}
