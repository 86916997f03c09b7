#include "model_units.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "block_choices.h"
#include "cut_model.h"
#include "cut_places.h"
#include "meshwright/gather_units.h"
#include "shrink_blocks.h"
#include "stage_balance.h"

namespace meshwright {

namespace {

using KindsByText = std::map<std::string, std::uint32_t>;

// What a unit computes: equal texts are of one kind.
std::string text_of(const BlockChoices& choices, const ModelUnits& units, const ModelUnit& unit) {
  ModelBlock block;
  for (NodeId id = unit.begin; id < unit.end; ++id) {
    if (units.bound[id]) block.nodes.push_back(id);
  }
  return choices.structure(block);
}

// Those at which least crosses of a block, and of what lies between blocks.
std::vector<CutPlace> best_places(const Graph& graph, const std::vector<CutPlace>& places) {
  std::vector<CutPlace> best;
  for (std::size_t first = 0, end = 0; first < places.size(); first = end) {
    const std::string block = block_of(graph.nodes[places[first].node].module_path);
    std::int64_t least = places[first].bytes;
    for (end = first; end < places.size() && block_of(graph.nodes[places[end].node].module_path) == block; ++end) least = std::min(least, places[end].bytes);
    std::copy_if(places.begin() + static_cast<std::ptrdiff_t>(first), places.begin() + static_cast<std::ptrdiff_t>(end), std::back_inserter(best), [&](const CutPlace& place) { return place.bytes == least; });
  }
  return best;
}

// Kinds that are in `known` already have their number there.
Result<ModelUnits> find_units(const PlanningContext& context, KindsByText& known) {
  const Graph& graph = context.graph();
  Result<std::vector<double>> seconds = seconds_on_one_device(context);
  if (!seconds) return seconds.error();
  ModelUnits made{{}, {}, std::move(*seconds), 0};
  const std::vector<bool> depends = depends_on_parameters(graph);
  for (const Node& node : graph.nodes) made.bound.push_back(depends[node.results.front()]);
  const BlockChoices choices(graph, {});
  NodeId begin = 0;
  const auto takes_time = [&](NodeId from, NodeId to) {
    for (NodeId id = from; id < to; ++id) {
      if (made.bound[id] && made.seconds[id] > 0) return true;
    }
    return false;
  };
  const auto add = [&](NodeId end, std::int64_t crossing_bytes) {
    ModelUnit unit{begin, end, 0, crossing_bytes};
    unit.kind = known.try_emplace(text_of(choices, made, unit), static_cast<std::uint32_t>(known.size())).first->second;
    made.units.push_back(unit);
    begin = end;
  };
  for (const CutPlace& place : best_places(graph, cut_places(context.model, depends))) {
    if (takes_time(begin, place.node)) add(place.node, place.bytes);
  }
  const auto count = static_cast<NodeId>(graph.nodes.size());
  if (takes_time(begin, count) || made.units.empty()) {
    add(count, 0);
  } else {
    made.units.back().end = count;
    made.units.back().crossing_bytes = 0;
  }
  made.kinds = static_cast<std::uint32_t>(known.size());
  return made;
}

}  // namespace

Result<ModelUnits> model_units(const PlanningContext& context) {
  KindsByText known;
  return find_units(context, known);
}

std::vector<std::uint32_t> unit_of_nodes(const Graph& graph, const ModelUnits& units) {
  std::vector<std::uint32_t> unit_of(graph.nodes.size(), kNoId);
  for (std::uint32_t u = 0; u < units.units.size(); ++u) {
    for (NodeId id = units.units[u].begin; id < units.units[u].end; ++id) {
      if (units.bound[id]) unit_of[id] = u;
    }
  }
  for (NodeId id = static_cast<NodeId>(graph.nodes.size()); id-- > 0;) {
    if (unit_of[id] == kNoId) continue;
    for (const Operand& operand : graph.nodes[id].operands) {
      const NodeId producer = graph.values[operand.value].producer;
      if (producer != kNoId && !units.bound[producer]) unit_of[producer] = std::min(unit_of[producer], unit_of[id]);
    }
  }
  std::ranges::replace(unit_of, kNoId, std::uint32_t{0});
  return unit_of;
}

Result<ShortModel> short_model(const PlanningContext& context, const ModelUnits& whole) {
  ShortModel made{with_few_blocks(context.graph(), {}).graph, {}};
  Result<ModelAnalysis> model = analyze_model(made.graph, context.ops);
  if (!model) return model.error();
  // The kinds of the whole, by their texts.
  KindsByText known;
  const BlockChoices choices(context.graph(), {});
  for (const ModelUnit& unit : whole.units) known.try_emplace(text_of(choices, whole, unit), unit.kind);
  Result<ModelUnits> units = find_units({*model, context.training, context.ops, context.profile, context.conversions}, known);
  if (!units) return units.error();
  std::vector<bool> has(whole.kinds, false);
  for (const ModelUnit& unit : units->units) {
    if (unit.kind < whole.kinds) has[unit.kind] = true;
  }
  if (std::ranges::find(has, false) != has.end() || units->kinds != whole.kinds) return ShortModel{context.graph(), whole};
  made.units = std::move(*units);
  return made;
}

std::vector<NodeId> alike_nodes(const ModelUnits& whole, const ShortModel& shorter) {
  std::map<std::uint32_t, std::vector<const ModelUnit*>> of_kind;
  for (const ModelUnit& unit : shorter.units.units) of_kind[unit.kind].push_back(&unit);
  std::vector<NodeId> nodes(whole.bound.size(), kNoId);
  std::set<std::uint32_t> seen;
  for (const ModelUnit& unit : whole.units) {
    const std::vector<const ModelUnit*>& all = of_kind.at(unit.kind);
    const ModelUnit& alike = seen.insert(unit.kind).second ? *all.front() : *all.back();
    NodeId to = alike.begin;
    for (NodeId id = unit.begin; id < unit.end; ++id) {
      if (!whole.bound[id]) continue;
      while (to < alike.end && !shorter.units.bound[to]) ++to;
      if (to < alike.end) nodes[id] = to++;
    }
  }
  return nodes;
}

AlikeNames alike_names(const Graph& whole, const Graph& shorter, const std::vector<NodeId>& nodes) {
  AlikeNames names;
  for (NodeId id = 0; id < nodes.size(); ++id) {
    if (nodes[id] == kNoId) continue;
    const Node &node = whole.nodes[id], &like = shorter.nodes[nodes[id]];
    names.emplace(node.name, like.name);
    for (std::size_t i = 0; i < std::min(node.operands.size(), like.operands.size()); ++i) names.emplace(whole.values[node.operands[i].value].name, shorter.values[like.operands[i].value].name);
    for (std::size_t i = 0; i < std::min(node.results.size(), like.results.size()); ++i) names.emplace(whole.values[node.results[i]].name, shorter.values[like.results[i]].name);
  }
  return names;
}

}  // namespace meshwright
