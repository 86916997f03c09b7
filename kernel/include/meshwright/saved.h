// What the forward keeps in memory for the backward, as PyTorch's autograd keeps it: storages, not tensors. A value that
// is saved keeps the whole storage that it is a view of, and a storage that several saved values share counts once.
#pragma once

#include <cstdint>
#include <vector>

#include "meshwright/export.h"
#include "meshwright/training_graph.h"

namespace meshwright {

struct SavedStorage {
  ValueId value = kNoId;       // of the forward: the one that owns the storage; the others are views of it
  std::vector<ValueId> saved;  // the values in it that the backward uses, ascending
  std::int64_t bytes = 0;      // of the whole storage
  bool operator==(const SavedStorage&) const = default;
};

// For each value of the graph, the one whose storage it has: itself, unless an op made it whose family says that it
// makes views (OpCost::alias). What an op that nobody knows makes has a storage of its own.
MESHWRIGHT_API std::vector<ValueId> storages(const Graph& graph, const OpTable& ops);

// The storages that the backward needs, by their owner, ascending. Parameters, and with them their views, are left out:
// they are there anyway. User inputs, buffers and constants that the backward uses are counted, as they are by
// `torch.autograd.graph.saved_tensors_hooks`.
MESHWRIGHT_API std::vector<SavedStorage> saved_storages(const TrainingGraph& training, const OpTable& ops);

// Of all of them together, on one device.
MESHWRIGHT_API std::int64_t saved_bytes(const TrainingGraph& training, const OpTable& ops);

}  // namespace meshwright
