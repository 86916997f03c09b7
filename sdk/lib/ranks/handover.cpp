#include "handover.h"

#include <algorithm>
#include <optional>

#include "box_runs.h"

namespace meshwright {

namespace {

std::size_t to_index(std::int64_t number) { return static_cast<std::size_t>(number); }

// Boxes of one layout are equal or disjoint: an equal one has nothing to give any more.
void hand_boxes(const StageEnd& sender, const StageEnd& receiver, const Box& wanted, std::vector<std::vector<HandedRun>>& runs) {
  std::vector<Box> seen;
  for (std::int64_t rank = 0; rank < sender.mesh.devices(); ++rank) {
    const Box held = box_of(sender.type.layout, sender.type.atoms, sender.mesh, coordinates_of(sender.mesh, rank));
    if (std::ranges::find(seen, held) != seen.end()) continue;
    seen.push_back(held);
    const Box shared = intersect(intersect(held, wanted), whole_box(receiver.type.atoms.sizes));
    for_each_run(held, wanted, shared, [&](std::size_t from, std::size_t to, std::size_t count) { runs[to_index(rank)].push_back({from, to, count}); });
  }
}

void hand_elements(const StageEnd& sender, const StageEnd& receiver, std::int64_t receiving, std::vector<std::vector<HandedRun>>& runs) {
  const ShardIndex wanted(receiver.type, receiver.mesh, coordinates_of(receiver.mesh, receiving));
  const std::int64_t elements = local_type(receiver.type, receiver.mesh).elements();
  std::vector<bool> handed(to_index(elements), false);
  for (std::int64_t rank = 0; rank < sender.mesh.devices(); ++rank) {
    const ShardIndex held(sender.type, sender.mesh, coordinates_of(sender.mesh, rank));
    std::vector<HandedRun>& here = runs[to_index(rank)];
    for (std::int64_t i = 0; i < elements; ++i) {
      const std::int64_t global = wanted.global(i);
      const std::optional<std::int64_t> local = global >= 0 && !handed[to_index(i)] ? held.local(global) : std::nullopt;
      if (!local) continue;
      handed[to_index(i)] = true;
      const bool goes_on = !here.empty() && here.back().from + here.back().count == to_index(*local) && here.back().to + here.back().count == to_index(i);
      if (goes_on) ++here.back().count;
      else here.push_back({to_index(*local), to_index(i), 1});
    }
  }
}

}  // namespace

std::vector<std::vector<HandedRun>> handed_to(const StageEnd& sender, const StageEnd& receiver, std::int64_t rank) {
  std::vector<std::vector<HandedRun>> runs(to_index(sender.mesh.devices()));
  if (sender.type.atoms.sizes == receiver.type.atoms.sizes) {
    hand_boxes(sender, receiver, box_of(receiver.type.layout, receiver.type.atoms, receiver.mesh, coordinates_of(receiver.mesh, rank)), runs);
  } else {
    hand_elements(sender, receiver, rank, runs);
  }
  return runs;
}

}  // namespace meshwright
