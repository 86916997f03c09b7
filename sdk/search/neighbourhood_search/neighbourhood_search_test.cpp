#include "neighbourhood_search.h"

#include <gtest/gtest.h>

#include "repair.h"
#include "small_space.h"

namespace meshwright {
namespace {

TEST(RangePeaks, AgreeWithPlainValues) {
  std::mt19937_64 random(1);
  for (const std::size_t size : {1U, 2U, 3U, 7U, 8U, 13U}) {
    std::vector<std::int64_t> plain(size);
    for (std::int64_t& value : plain) value = static_cast<std::int64_t>(random() % 20) - 10;
    RangePeaks peaks(plain);
    for (int change = 0; change < 200; ++change) {
      const std::size_t begin = random() % (size + 1);
      const std::size_t end = begin + random() % (size + 1 - begin);
      const auto value = static_cast<std::int64_t>(random() % 20) - 10;
      peaks.add(begin, end, value);
      for (std::size_t i = begin; i < end; ++i) plain[i] += value;
      const auto most = std::max_element(plain.begin(), plain.end());
      ASSERT_EQ(peaks.most(), *most);
      ASSERT_EQ(peaks.first_peak(), static_cast<std::size_t>(most - plain.begin()));
      const std::size_t from = random() % size;
      const std::size_t to = from + 1 + random() % (size - from);
      const auto first = plain.begin() + static_cast<std::ptrdiff_t>(from);
      const auto last = plain.begin() + static_cast<std::ptrdiff_t>(to);
      ASSERT_EQ(peaks.most(from, to), *std::max_element(first, last));
      std::vector<std::int64_t> read;
      peaks.read(from, to, read);
      ASSERT_EQ(read, std::vector<std::int64_t>(first, last));
    }
  }
}

TEST(RangePeaks, OfNothingAreBelowEverything) {
  const RangePeaks peaks({});
  EXPECT_LT(peaks.most(), -(std::int64_t{1} << 60));
}

TEST(SearchState, AgreesWithEvaluationAfterAnyMoves) {
  std::mt19937_64 random(2);
  constexpr std::int64_t kBudget = 20;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    const StrategySpace space = small_space(seed);
    const CompactSpace compact(space, kBudget);
    SearchState state(compact, std::vector<std::uint32_t>(space.nodes.size(), 0));
    for (int step = 0; step < 50; ++step) {
      const auto node = static_cast<std::uint32_t>(random() % space.nodes.size());
      const auto strategy = static_cast<std::uint32_t>(random() % space.nodes[node].costs.size());
      const std::vector<std::uint32_t> before = state.choice();
      const double cost = state.cost();
      const double expected = cost + state.rise(node, strategy);
      const bool fits = state.fits_after(node, strategy);
      const std::size_t mark = state.mark();
      state.move(node, strategy);
      ASSERT_EQ(state.cost(), expected);
      ASSERT_EQ(state.fits(), fits) << "seed " << seed;
      const Evaluation evaluation = evaluate(space, state.choice());
      ASSERT_EQ(state.fits(), space.memory.empty() || evaluation.peak_bytes <= kBudget);
      ASSERT_EQ(state.is_allowed(), evaluation.allowed);
      if (evaluation.allowed) {
        ASSERT_EQ(state.cost(), static_cast<double>(evaluation.cost));
      }
      if (step % 3 != 0) continue;
      state.go_back(mark);
      ASSERT_EQ(state.choice(), before);
      ASSERT_EQ(state.cost(), cost);
    }
  }
}

TEST(ForestWindow, SolvesForestsExactly) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    StrategySpace space = small_space(seed);
    std::erase_if(space.edges, [](const SpaceEdge& edge) { return std::min(edge.from, edge.to) != std::max(edge.from, edge.to) / 2; });
    const std::optional<TickSum> least = least_cost(space, 1000);
    if (!least) continue;
    const CompactSpace compact(space, 1000);
    std::vector<std::uint32_t> nodes;
    for (std::uint32_t node = 0; node < space.nodes.size(); ++node) nodes.push_back(node);
    ForestWindow window(compact);
    window.set_nodes(nodes);
    ASSERT_EQ(window.nodes().size(), nodes.size()) << "a forest closes no cycle";
    SearchState state(compact, std::vector<std::uint32_t>(space.nodes.size(), 0));
    window.improve(state, std::vector<double>(compact.rooms().size(), 0), 1);
    for (std::size_t i = 0; i < nodes.size(); ++i) state.move(window.nodes()[i], window.solution()[i]);
    EXPECT_EQ(state.cost(), static_cast<double>(*least)) << "seed " << seed;
    EXPECT_NE(window.improve(state, std::vector<double>(compact.rooms().size(), 0), 1), WindowOutcome::better);
  }
}

// The first one that fits.
std::optional<std::vector<std::uint32_t>> first_choice(const StrategySpace& space, std::int64_t budget) {
  std::optional<std::vector<std::uint32_t>> first;
  for_each_choice(space, [&](const auto& choice, const Evaluation& evaluation) {
    if (evaluation.allowed && evaluation.peak_bytes <= budget && !first) first = choice;
  });
  return first;
}

TEST(ForestWindow, NeverCallsAnythingBetterThatIsNot) {
  constexpr std::int64_t kBudget = 25;
  int better = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const StrategySpace space = small_space(seed);
    const CompactSpace compact(space, kBudget);
    const std::optional<std::vector<std::uint32_t>> start = first_choice(space, kBudget);
    if (!start) continue;
    const TickSum least = *least_cost(space, kBudget);
    SearchState state(compact, *start);
    std::vector<std::uint32_t> nodes;
    for (std::uint32_t node = 0; node < space.nodes.size(); ++node) nodes.push_back(node);
    ForestWindow window(compact);
    window.set_nodes(nodes);
    const double before = state.cost();
    const auto outcome = window.improve(state, std::vector<double>(compact.rooms().size(), 0), 20);
    if (outcome == WindowOutcome::none && window.nodes().size() == nodes.size()) {
      EXPECT_EQ(before, static_cast<double>(least)) << "seed " << seed;
    }
    if (outcome != WindowOutcome::better) continue;
    ++better;
    for (std::size_t i = 0; i < window.nodes().size(); ++i) state.move(window.nodes()[i], window.solution()[i]);
    EXPECT_LT(state.cost(), before);
    EXPECT_TRUE(state.fits());
    EXPECT_TRUE(state.is_allowed());
  }
  EXPECT_GT(better, 20);
}

std::vector<std::uint32_t> all_nodes(const StrategySpace& space) {
  std::vector<std::uint32_t> nodes;
  for (std::uint32_t node = 0; node < space.nodes.size(); ++node) nodes.push_back(node);
  return nodes;
}

TEST(WidthWindow, SolvesExactlyWhatItsTablesHold) {
  int solved = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const StrategySpace space = small_space(seed);
    const std::optional<TickSum> least = least_cost(space, 1000);
    if (!least) continue;
    ++solved;
    const CompactSpace compact(space, 1000);
    WidthWindow window(compact);
    window.set_nodes(all_nodes(space), {}, 1e6);
    ASSERT_EQ(window.nodes().size(), space.nodes.size());
    SearchState state(compact, std::vector<std::uint32_t>(space.nodes.size(), 0));
    window.improve(state, std::vector<double>(compact.rooms().size(), 0), 1);
    for (std::size_t i = 0; i < window.nodes().size(); ++i) state.move(window.nodes()[i], window.solution()[i]);
    state.recount();
    EXPECT_EQ(state.cost(), static_cast<double>(*least)) << "seed " << seed;
  }
  EXPECT_GT(solved, 100);
}

TEST(WidthWindow, LeavesNodesAsTheyAreWhereTablesWouldBeTooLarge) {
  constexpr std::int64_t kBudget = 25;
  int smaller = 0;
  int better = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const StrategySpace space = small_space(seed);
    const CompactSpace compact(space, kBudget);
    const std::optional<std::vector<std::uint32_t>> start = first_choice(space, kBudget);
    if (!start) continue;
    const TickSum least = *least_cost(space, kBudget);
    SearchState state(compact, *start);
    WidthWindow window(compact);
    window.set_nodes(all_nodes(space), {}, 10);
    smaller += window.nodes().size() < space.nodes.size() ? 1 : 0;
    const double before = state.cost();
    const WindowOutcome outcome = window.improve(state, std::vector<double>(compact.rooms().size(), 0), 20);
    if (outcome == WindowOutcome::none && window.nodes().size() == space.nodes.size()) {
      EXPECT_EQ(before, static_cast<double>(least)) << "seed " << seed;
    }
    if (outcome != WindowOutcome::better) continue;
    ++better;
    for (std::size_t i = 0; i < window.nodes().size(); ++i) state.move(window.nodes()[i], window.solution()[i]);
    EXPECT_LT(state.cost(), before);
    EXPECT_TRUE(state.fits() && state.is_allowed()) << "seed " << seed;
  }
  EXPECT_GT(smaller, 50);
  EXPECT_GT(better, 20);
}

TEST(NeighbourhoodSearch, TakesTheBestOfSeveralChoices) {
  // Two rings of four, which nothing joins: one choice is good in the first, another in the second; together they fit.
  StrategySpace space;
  space.tables = {{2, 2, {0, 50, 50, 0}}};
  for (std::uint32_t id = 0; id < 8; ++id) {
    space.nodes.push_back({std::to_string(id), {20, 10}});
    space.memory.push_back({id, 0, 1, {0, 1}});
    space.edges.push_back({id, id / 4 * 4 + (id + 1) % 4, 0});
  }
  const CompactSpace compact(space, 8);
  const PointPrices none(compact.rooms().size(), 0);
  NeighbourhoodSearch search(compact, 1);
  ASSERT_TRUE(search.start_from({1, 1, 1, 1, 0, 0, 0, 0}, none));
  ASSERT_EQ(search.current_cost(), 120);
  search.recombine({{0, 0, 0, 0, 1, 1, 1, 1}}, none);
  EXPECT_EQ(search.current_cost(), 80);
  EXPECT_EQ(search.choice(), std::vector<std::uint32_t>(8, 1));
}

TEST(Repair, MovesOffThePeakWhereThatCostsLeast) {
  StrategySpace space;
  space.nodes = {{"a", {0, 9}}, {"b", {0, 5}}, {"c", {0, 1}}};
  space.memory = {{0, 0, 2, {4, 0}}, {1, 0, 2, {4, 0}}, {2, 3, 4, {4, 0}}};
  const CompactSpace compact(space, 4);
  SearchState state(compact, {0, 0, 0});
  std::int64_t work = 0;
  EXPECT_TRUE(repair(state, std::vector<double>(compact.rooms().size() + 1, 0), 1000, work));
  EXPECT_EQ(state.choice(), (std::vector<std::uint32_t>{0, 1, 0}));
  EXPECT_GT(work, 0);
}

TEST(NeighbourhoodSearch, FindsTheBestOfSmallSpaces) {
  constexpr std::int64_t kBudget = 25;
  int found = 0;
  int best = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const StrategySpace space = small_space(seed);
    const std::optional<TickSum> least = least_cost(space, kBudget);
    if (!least) continue;
    const CompactSpace compact(space, kBudget);
    const PointPrices none(compact.rooms().size(), 0);
    NeighbourhoodSearch search(compact, seed);
    if (!search.start_from(std::vector<std::uint32_t>(space.nodes.size(), 0), none)) continue;
    ++found;
    search.run(none, 100'000, 20);
    const Evaluation evaluation = evaluate(space, search.choice());
    EXPECT_TRUE(evaluation.allowed) << "seed " << seed;
    EXPECT_LE(evaluation.peak_bytes, kBudget) << "seed " << seed;
    EXPECT_EQ(static_cast<double>(evaluation.cost), search.cost()) << "seed " << seed;
    EXPECT_GE(search.cost(), static_cast<double>(*least)) << "seed " << seed;
    best += search.cost() == static_cast<double>(*least) ? 1 : 0;
  }
  EXPECT_GT(found, 50);
  EXPECT_GE(best * 10, found * 9);
}

}  // namespace
}  // namespace meshwright
