#include "meshwright/saved.h"

#include <map>
#include <numeric>

#include "rule/view_finder.h"

namespace meshwright {

std::vector<ValueId> storages(const Graph& graph, const OpTable& ops) {
  std::vector<ValueId> owner(graph.values.size());
  std::iota(owner.begin(), owner.end(), ValueId{0});
  ViewFinder finder(ops);
  for (const Node& node : graph.nodes) {
    if (node.operands.empty() || !finder.is_view(make_call(graph, node))) continue;
    for (const ValueId result : node.results) owner[result] = owner[node.operands[0].value];
  }
  return owner;
}

std::vector<SavedStorage> saved_storages(const TrainingGraph& training, const OpTable& ops) {
  const Graph& graph = training.graph;
  std::vector<bool> is_parameter(graph.values.size(), false);
  for (const Source& source : graph.sources) is_parameter[source.value] = source.kind == SourceKind::parameter;
  const std::vector<ValueId> owner = storages(graph, ops);
  std::map<ValueId, SavedStorage> found;
  for (const ValueId id : training.saved) {
    if (is_parameter[owner[id]]) continue;
    SavedStorage& storage = found[owner[id]];
    storage.value = owner[id];
    storage.bytes = graph.type(owner[id]).bytes();
    storage.saved.push_back(id);
  }
  std::vector<SavedStorage> storages;
  for (auto& [id, storage] : found) storages.push_back(std::move(storage));
  return storages;
}

std::int64_t saved_bytes(const TrainingGraph& training, const OpTable& ops) {
  std::int64_t sum = 0;
  for (const SavedStorage& storage : saved_storages(training, ops)) sum += storage.bytes;
  return sum;
}

}  // namespace meshwright
