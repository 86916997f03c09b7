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

// For each value of the graph, the value that owns its storage: itself, unless it is a view (OpCost::alias). The results of an op
// that no family serves have storages of their own.
MESHWRIGHT_API std::vector<ValueId> storages(const Graph& graph, const OpTable& ops);

// The storages that the backward needs, by their owner, ascending. Parameters and their views are left out, since they are
// resident anyway. User inputs, buffers and constants that the backward uses are counted, as they are by
// `torch.autograd.graph.saved_tensors_hooks`.
MESHWRIGHT_API std::vector<SavedStorage> saved_storages(const TrainingGraph& training, const OpTable& ops);

// The bytes of all these storages, on one device.
MESHWRIGHT_API std::int64_t saved_bytes(const TrainingGraph& training, const OpTable& ops);

}  // namespace meshwright
