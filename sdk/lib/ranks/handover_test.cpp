#include "handover.h"

#include <gtest/gtest.h>

#include "program_fixtures.h"

namespace meshwright {
namespace {

using testing::mesh_of;
using Runs = std::vector<std::vector<std::vector<std::size_t>>>;  // by sender: from, to, count

ShardedType lies(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& atoms, const std::string& layout, const Mesh& mesh) {
  AtomShape shape = whole_dimensions(sizes);
  if (!atoms.empty()) {
    shape.sizes = atoms;
    shape.atoms_of_dimension = {static_cast<std::uint8_t>(atoms.size())};
    shape.paddable.assign(atoms.size(), false);
  }
  return {{DType::float32, sizes}, shape, parse_layout(layout, shape, mesh.rank()).value()};
}

Runs runs_of(const ShardedType& sent, const Mesh& from, const ShardedType& received, const Mesh& to, std::int64_t rank) {
  Runs runs;
  for (const std::vector<HandedRun>& sender : handed_to({sent, from}, {received, to}, rank)) {
    runs.emplace_back();
    for (const HandedRun& run : sender) runs.back().push_back({run.from, run.to, run.count});
  }
  return runs;
}

TEST(Handover, IsOfEachElementOnce) {
  const Mesh two = mesh_of({2}), four = mesh_of({4});
  // Both senders have everything: the first gives it.
  EXPECT_EQ(runs_of(lies({8}, {}, "R", two), two, lies({8}, {}, "S0", four), four, 1), (Runs{{{2, 0, 2}}, {}}));
  EXPECT_EQ(runs_of(lies({8}, {}, "S0", four), four, lies({8}, {}, "S0", two), two, 1), (Runs{{}, {}, {{0, 0, 2}}, {{0, 2, 2}}}));
}

TEST(Handover, OfColumnsIsOfEachRow) {
  const Mesh two = mesh_of({2});
  EXPECT_EQ(runs_of(lies({2, 4}, {}, "RS0", two), two, lies({2, 4}, {}, "RR", two), two, 0), (Runs{{{0, 0, 2}, {2, 4, 2}}, {{0, 2, 2}, {2, 6, 2}}}));
}

// The sender's second atom is cut, so that it has every other pair.
TEST(Handover, BetweenOtherAtomsJoinsWhatLiesTogether) {
  const Mesh two = mesh_of({2});
  EXPECT_EQ(runs_of(lies({8}, {2, 4}, "[R S0]", two), two, lies({8}, {}, "S0", two), two, 1), (Runs{{{2, 0, 2}}, {{2, 2, 2}}}));
}

}  // namespace
}  // namespace meshwright
