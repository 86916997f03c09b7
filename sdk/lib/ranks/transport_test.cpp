// Every move from every layout that moves lead to, on several meshes: what the ranks end with is what the layouts say,
// and what they fetched is what sent_bytes predicts.
#include "transport.h"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "execution.h"
#include "meshwright/conversion.h"
#include "program_fixtures.h"

namespace meshwright {
namespace {

using testing::count_up;
using testing::mesh_of;

struct Case {
  std::string name;
  std::vector<std::int64_t> mesh;
  std::vector<std::int64_t> shape;
  AtomShape atoms;
};

Layout whole_instead_of_partial(Layout layout) {
  for (std::size_t axis = 0; axis < layout.mesh_rank(); ++axis) {
    if (layout[axis].is_partial()) layout.place(axis, Placement::replicate());
  }
  return layout;
}

class Moves : public ::testing::TestWithParam<Case> {
 protected:
  Moves() : mesh_(mesh_of(GetParam().mesh)), whole_(count_up(GetParam().shape, 1)) {}

  ShardedType typed(const Layout& layout) const { return {whole_.type(), GetParam().atoms, layout}; }

  Tensor part(const Layout& layout, std::int64_t rank) const {
    return cut(whole_, typed(whole_instead_of_partial(layout)), mesh_, coordinates_of(mesh_, rank));
  }

  // A rank's addend: along each partial axis the addends are small multiples of the value that add up to it, or the
  // value less something for all but one.
  Tensor source(const Layout& layout, std::int64_t rank) const {
    Tensor tensor = part(layout, rank);
    const std::vector<std::int64_t> at = coordinates_of(mesh_, rank);
    for (std::size_t axis = 0; axis < mesh_.rank(); ++axis) {
      const std::int64_t last = mesh_.axes[axis].size - 1;
      for (float& element : tensor.as<float>()) {
        if (layout[axis] == Placement::partial_sum()) {
          element *= static_cast<float>(at[axis] < last ? at[axis] + 2 : 1 - last * (last + 3) / 2);
        }
        if (layout[axis] == Placement::partial_max()) element -= static_cast<float>(at[axis] == 1 ? 0 : 1 + at[axis]);
      }
    }
    return tensor;
  }

  void check(const Layout& from, const Move& move, std::optional<std::uint64_t> scatter = std::nullopt) {
    const std::string what = to_string(from, GetParam().atoms) + " " + name(move.kind) + " " +
                             axes_text(move) + " " + to_string(move.result, GetParam().atoms);
    Program program;
    program.mesh = mesh_;
    program.values = {{"a", typed(from)}, {"b", typed(move.result)}};
    Instruction instruction;
    instruction.action = MoveStep{move};
    instruction.operands = {{"", 0, from}};
    instruction.results = {1};
    program.instructions = {instruction};
    Meeting meeting(mesh_.devices(), [](std::size_t) { return "the move"; });
    Transport transport(program, meeting, scatter);
    std::vector<Tensor> sources, results;
    for (std::int64_t rank = 0; rank < mesh_.devices(); ++rank) {
      sources.push_back(source(from, rank));
      results.emplace_back(program.local(1));
    }
    std::vector<std::thread> threads;
    for (std::int64_t rank = 0; rank < mesh_.devices(); ++rank) {
      threads.emplace_back([&, rank] {
        const auto i = static_cast<std::size_t>(rank);
        const Result<bool> met = transport.move(rank, 0, program.instructions[0], sources[i], results[i]);
        EXPECT_TRUE(met && *met) << what;
        meeting.leave(rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::int64_t fetched = 0;
    for (std::int64_t rank = 0; rank < mesh_.devices(); ++rank) {
      fetched += transport.fetched_bytes(rank);
      check_total(move.result, rank, results, what);
    }
    EXPECT_EQ(fetched, sent_bytes(program, instruction)) << what;
  }

  // Of all ranks that differ from `rank` in partial axes only, the addends make up the value.
  void check_total(const Layout& layout, std::int64_t rank, const std::vector<Tensor>& results,
                   const std::string& what) {
    const Tensor expected = part(layout, rank);
    Tensor total(expected.type());
    const std::vector<std::int64_t> at = coordinates_of(mesh_, rank);
    bool first = true;
    for (std::int64_t other = 0; other < mesh_.devices(); ++other) {
      const std::vector<std::int64_t> there = coordinates_of(mesh_, other);
      bool joins = true, maximum = false;
      for (std::size_t axis = 0; axis < mesh_.rank(); ++axis) {
        joins &= layout[axis].is_partial() || at[axis] == there[axis];
        maximum |= layout[axis] == Placement::partial_max();
      }
      if (!joins) continue;
      for (std::int64_t i = 0; i < total.elements(); ++i) {
        const double a = total.get(i), b = results[static_cast<std::size_t>(other)].get(i);
        total.set(i, first ? b : maximum ? std::max(a, b) : a + b);
      }
      first = false;
    }
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < total.elements(); ++i)
      wrong += std::abs(total.get(i) - expected.get(i)) > 1e-3 ? 1 : 0;
    EXPECT_EQ(wrong, 0) << what << " at rank " << rank;
  }

  Mesh mesh_;
  Tensor whole_;
};

TEST_P(Moves, EndWhereTheLayoutsSay) {
  const CostProfile profile;
  const ConversionProblem problem{mesh_, GetParam().atoms, profile};
  std::set<Layout> known = {Layout(mesh_.rank())};
  std::vector<Layout> queue(known.begin(), known.end());
  std::set<MoveKind> kinds;
  std::size_t permuting = 0;
  while (!queue.empty()) {
    const Layout from = queue.back();
    queue.pop_back();
    for (const Move& move : one_step_moves(problem, from)) {
      check(from, move);
      if (HasFailure()) return;
      kinds.insert(move.kind);
      permuting += move.permutes_before || move.permutes_after ? 1 : 0;
      if (known.insert(move.result).second) queue.push_back(move.result);
    }
  }
  const bool one_axis = GetParam().mesh.size() == 1;
  EXPECT_GE(kinds.size(), one_axis || mesh_.axes[0].size != mesh_.axes[1].size ? 6U : 7U);  // permute needs equal sizes
  EXPECT_EQ(permuting > 0, !one_axis);
}

TEST_P(Moves, MaximaAreReduced) {
  Layout from(mesh_.rank());
  from.place(0, Placement::partial_max());
  const CostProfile profile;
  for (const Move& move : one_step_moves({mesh_, GetParam().atoms, profile}, from)) {
    if (move.axis == 0) check(from, move);
  }
}

TEST_P(Moves, ScatteredPartialsAddUp) {
  const CostProfile profile;
  for (const Move& move : one_step_moves({mesh_, GetParam().atoms, profile}, Layout(mesh_.rank()))) {
    if (move.kind == MoveKind::keep_one) check(Layout(mesh_.rank()), move, 11);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Moves,
    ::testing::Values(Case{"line", {4}, {8, 12}, {{8, 12}, {1, 1}, {false, false}}},
                      Case{"square", {2, 2}, {8, 4}, {{8, 4}, {1, 1}, {false, false}}},
                      Case{"padded_line", {8}, {50, 8}, {{50, 8}, {1, 1}, {true, false}}},
                      Case{"padded", {2, 4}, {50, 8}, {{50, 8}, {1, 1}, {true, false}}},
                      Case{"padded_inside", {2, 4}, {8, 3, 50}, {{8, 3, 50}, {1, 1, 1}, {false, false, true}}},
                      Case{"atoms", {2, 4}, {32, 1, 5}, {{4, 8, 5}, {2, 0, 1}, {false, false, false}}},
                      Case{"cube", {2, 2, 2}, {8, 3, 50}, {{8, 3, 50}, {1, 1, 1}, {false, false, true}}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace meshwright
