// Kernels of which blocks of threads have an index, and when they are taken: reductions of long rows, running sums and
// orders of long lines, against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "block_kernels.h"
#include "kernels/masks.h"
#include "kernels/reductions.h"
#include "kernels/selections.h"

namespace meshwright::cuda {
namespace {

class LongKernels : public BlockKernels {
 protected:
  // Sorted by what a plain sort of positions gives; `kept` of each line.
  void expect_order(const Lines& lines, DType type, bool descending, std::int64_t kept, Lie lie) {
    const Numbers numbers = draw(lines.outer * lines.extent * lines.inner, type, true);
    Lines made = lines;
    made.extent = kept;
    Numbers values(static_cast<std::size_t>(made.count() * kept)), positions = values;
    for (std::int64_t l = 0; l < lines.count(); ++l) {
      const Numbers line = line_of(numbers, lines, l);
      std::vector<std::size_t> order(line.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      const auto is_less = [&](std::size_t a, std::size_t b) {
        return !std::isnan(line[a]) && (std::isnan(line[b]) || line[a] < line[b]);
      };
      std::ranges::stable_sort(
          order, [&](std::size_t a, std::size_t b) { return descending ? is_less(b, a) : is_less(a, b); });
      for (std::int64_t i = 0; i < kept; ++i) {
        const std::size_t position = order[static_cast<std::size_t>(i)], to = static_cast<std::size_t>(made.at(l, i));
        values[to] = line[position];
        positions[to] = static_cast<double>(position);
      }
    }
    const std::string what = std::to_string(kept) + " of " + std::to_string(lines.extent) + " " +
                             std::string(name(type)) + (descending ? ", descending" : "");
    const bool is_whole = kept == lines.extent;
    Attributes attributes{{"dim", std::int64_t{1}}};
    if (is_whole)
      attributes["descending"] = descending;
    else
      attributes.insert({{"k", kept}, {"largest", descending}});
    const std::vector<Numbers> sorted =
        compute(is_whole ? "aten.sort" : "aten.topk", attributes, numbers, {type, lines.shape()}, lie,
                {{type, made.shape()}, {DType::int64, made.shape()}});
    expect_equal(sorted[0], values, what + ", values");
    expect_equal(sorted[1], positions, what + ", positions");
  }
};

INSTANTIATE_TEST_SUITE_P(Run, LongKernels, testing::Bool(),
                         [](const auto& run) { return std::string(run.param ? "OnAGpu" : "OnTheHost"); });

double reduced(const std::string& op, const Numbers& line) {
  if (op == "aten.amax") return *std::ranges::max_element(line);
  const double sum = std::accumulate(line.begin(), line.end(), 0.0);
  return op == "aten.mean.dim" ? sum / static_cast<double>(line.size()) : sum;
}

// Of an operand and of the result.
struct Types {
  DType from, made;
};

TEST_P(LongKernels, ReduceLongRows) {
  for (const Types& types : std::vector<Types>{{DType::float32, DType::float32},
                                               {DType::bfloat16, DType::bfloat16},
                                               {DType::float64, DType::float64},
                                               {DType::int32, DType::int64},
                                               {DType::boolean, DType::int64}}) {
    const DType type = types.from;
    for (const std::int64_t extent : {1, 511, 512, 4095, 4096, 4097, 3 * 4096 + 7}) {
      for (const Lie lie : {Lie::rows, Lie::turned, Lie::gaps}) {
        const Lines lines{2, extent, 2};
        const Numbers numbers = draw(4 * extent, type, false);
        for (const std::string op : {"aten.sum.dim_IntList", "aten.mean.dim", "aten.amax"}) {
          if (op == "aten.mean.dim" && !is_floating(type)) continue;
          const DType result = op == "aten.amax" ? type : types.made;
          Numbers expected;
          for (std::int64_t l = 0; l < lines.count(); ++l)
            expected.push_back(rounded(reduced(op, line_of(numbers, lines, l)), result));
          const std::string what = op + " of " + std::to_string(extent) + " " + std::string(name(type));
          const auto computed = [&] {
            return compute(op, {{"dim", std::vector<std::int64_t>{1}}}, numbers, {type, lines.shape()}, lie,
                           {{result, {2, 2}}});
          };
          const std::vector<Numbers> first = computed();
          expect_equal(first[0], expected, what);
          EXPECT_EQ(computed(), first) << what;
          if (extent < 512)
            expect_kernels({KernelId::reduce}, what);
          else if (extent <= 4096)
            expect_kernels({KernelId::reduce_chunks}, what);
          else
            expect_kernels({KernelId::reduce_chunks, KernelId::reduce}, what);
        }
      }
    }
  }
}

// So long that sums of chunks are a long row.
TEST_P(LongKernels, ReduceAll) {
  constexpr std::int64_t kAll = (std::int64_t{1} << 22U) + 5;
  const Numbers numbers = draw(kAll, DType::boolean, false);
  const std::vector<Numbers> sum =
      compute("aten.sum", {}, numbers, {DType::boolean, {kAll}}, Lie::rows, {{DType::int64, {}}});
  expect_equal(sum[0], {std::accumulate(numbers.begin(), numbers.end(), 0.0)}, "sum");
  expect_kernels({KernelId::reduce_chunks, KernelId::reduce_chunks}, "sum");
}

TEST_P(LongKernels, ReduceSumsOfColumns) {
  constexpr std::int64_t kRows = 40000;
  const Numbers numbers = draw(kRows * 3, DType::float32, false);
  Numbers expected(3);
  for (std::size_t i = 0; i < numbers.size(); ++i) expected[i % 3] += numbers[i];
  const std::vector<Numbers> sums = compute("aten.sum.dim_IntList", {{"dim", std::vector<std::int64_t>{0}}}, numbers,
                                            {DType::float32, {kRows, 3}}, Lie::rows, {{DType::float32, {3}}});
  expect_equal(sums[0], expected, "columns");
  expect_kernels({KernelId::column_sums, KernelId::reduce_chunks}, "columns");
}

TEST_P(LongKernels, LeaveManyRowsToWarps) {
  const Numbers numbers = draw(4096 * 512, DType::int8, false);
  const Lines lines{4096, 512, 1};
  Numbers expected;
  for (std::int64_t l = 0; l < lines.count(); ++l) {
    const Numbers line = line_of(numbers, lines, l);
    expected.push_back(std::accumulate(line.begin(), line.end(), 0.0));
  }
  const std::vector<Numbers> sums = compute("aten.sum.dim_IntList", {{"dim", std::vector<std::int64_t>{1}}}, numbers,
                                            {DType::int8, lines.shape()}, Lie::rows, {{DType::int64, {4096, 1}}});
  expect_equal(sums[0], expected, "rows");
  expect_kernels({KernelId::reduce}, "rows");
}

TEST_P(LongKernels, ReduceNothing) {
  const TensorType no_rows{DType::float32, {0, 5000}}, no_elements{DType::float32, {2, 0}};
  const Attributes last{{"dim", std::vector<std::int64_t>{1}}};
  EXPECT_TRUE(compute("aten.sum.dim_IntList", last, {}, no_rows, Lie::rows, {{DType::float32, {0}}})[0].empty());
  expect_equal(compute("aten.sum.dim_IntList", last, {}, no_elements, Lie::rows, {{DType::float32, {2}}})[0], {0, 0},
               "sums of nothing");
}

TEST_P(LongKernels, SumAlongLongLines) {
  for (const Types& types : std::vector<Types>{{DType::float32, DType::float32},
                                               {DType::bfloat16, DType::float32},
                                               {DType::bfloat16, DType::bfloat16},
                                               {DType::float64, DType::float64},
                                               {DType::int32, DType::int64}}) {
    const DType type = types.from, made = types.made;
    for (const std::int64_t extent : {1, 511, 512, kScanTile - 1, kScanTile, kScanTile + 1, 3 * kScanTile + 7}) {
      for (const Lie lie : {Lie::rows, Lie::turned, Lie::gaps}) {
        const Lines lines{2, extent, 2};
        const Numbers numbers = draw(4 * extent, type, false);
        Numbers expected(numbers.size());
        for (std::int64_t l = 0; l < lines.count(); ++l) {
          double sum = 0;
          for (std::int64_t i = 0; i < extent; ++i) {
            const auto at = static_cast<std::size_t>(lines.at(l, i));
            expected[at] = rounded(sum += numbers[at], made);
          }
        }
        const std::string what = std::to_string(extent) + " " + std::string(name(type));
        expect_equal(compute("aten.cumsum", {{"dim", std::int64_t{1}}}, numbers, {type, lines.shape()}, lie,
                             {{made, lines.shape()}})[0],
                     expected, what);
        expect_kernels({extent < 512 ? KernelId::running_sum : KernelId::running_sum_of_long}, what);
      }
    }
  }
}

// Tiles of the mask, which is one for two elements.
TEST_P(LongKernels, ScatterUnderMasks) {
  for (const std::int64_t count : {1, kMaskTile / 2, kMaskTile / 2 + 1, 3 * kMaskTile + 7}) {
    const auto elements = static_cast<std::size_t>(2 * count);
    const Numbers self = draw(2 * count, DType::float32, false), source(self.rbegin(), self.rend());
    Numbers mask, expected = self, gradient(elements);
    for (std::int64_t i = 0; i < count; ++i) mask.push_back(i * 7919 % 97 % 3 == 0 ? 1 : 0);
    std::size_t next = 0;
    for (std::size_t i = 0; i < elements; ++i) {
      if (mask[i / 2] == 0) continue;
      expected[i] = source[next];
      gradient[next++] = self[i];
    }
    const TensorType whole{DType::float32, {count, 2}};
    const Given masked{"mask", mask, {DType::boolean, {count, 1}}};
    const std::string what = std::to_string(count);
    expect_equal(
        compute("aten.masked_scatter", {},
                {{"self", self, whole, Lie::turned}, masked, {"source", source, {DType::float32, {2 * count}}}},
                {whole})[0],
        expected, what);
    expect_kernels({KernelId::mask_counts, KernelId::running_sum_of_long, KernelId::mask_scatter}, what);
    expect_equal(compute("meshwright.masked_scatter_backward", {}, {{"grad_output", self, whole, Lie::gaps}, masked},
                         {{DType::float32, {2 * count}}})[0],
                 gradient, what + ", backward");
  }
}

TEST_P(LongKernels, SortLines) {
  for (const DType type : {DType::float32, DType::bfloat16, DType::float64, DType::int64, DType::int32, DType::uint8}) {
    for (const std::int64_t extent : {1, 256, 257, kSortTile - 1, kSortTile, kSortTile + 1, 3 * kSortTile + 7}) {
      for (const bool descending : {false, true}) {
        for (const Lie lie : {Lie::rows, Lie::turned, Lie::gaps})
          expect_order({2, extent, 2}, type, descending, extent, lie);
      }
    }
  }
}

TEST_P(LongKernels, SortByTilesThatAreMerged) {
  using enum KernelId;
  const std::vector<std::pair<std::int64_t, std::vector<KernelId>>> cases = {
      {256, {select_order}},
      {257, {sort_tiles}},
      {kSortTile, {sort_tiles}},
      {kSortTile + 1, {sort_tiles, merge_runs}},
      {2 * kSortTile + 1, {sort_tiles, merge_runs, merge_runs}},
      {5 * kSortTile - 1, {sort_tiles, merge_runs, merge_runs, merge_runs}},
      {8 * kSortTile, {sort_tiles, merge_runs, merge_runs, merge_runs}}};
  for (const auto& [extent, kernels] : cases) {
    expect_order({1, extent, 1}, DType::float32, true, extent, Lie::rows);
    expect_kernels(kernels, std::to_string(extent));
  }
}

TEST_P(LongKernels, KeepTheFirstOfAnOrder) {
  for (const DType type : {DType::float32, DType::int64}) {
    for (const std::int64_t extent : {257, kSortTile + 1, 3 * kSortTile + 7, 6 * kSortTile}) {
      for (const std::int64_t kept : {0, 1, 10, 256, kSortTile - 1, kSortTile, kSortTile + 3, 2 * kSortTile + 9}) {
        for (const bool descending : {false, true}) {
          if (kept < extent) expect_order({2, extent, 2}, type, descending, kept, Lie::rows);
        }
      }
    }
  }
}

TEST_P(LongKernels, SortNoLines) {
  const TensorType none{DType::float32, {0, 5000}};
  EXPECT_TRUE(
      compute("aten.sort", {{"dim", std::int64_t{1}}}, {}, none, Lie::rows, {none, {DType::int64, none.shape}})[0]
          .empty());
}

TEST_P(LongKernels, FindTheExtremesOfLongLines) {
  for (const DType type : {DType::float32, DType::bfloat16, DType::float64, DType::int64}) {
    for (const std::int64_t extent : {1, 1023, 1024, 1025, 5000}) {
      for (const bool smallest : {false, true}) {
        for (const bool specials : {false, true}) {
          const Lines lines{2, extent, 2};
          const Numbers numbers = draw(4 * extent, type, specials);
          Numbers values, positions;
          for (std::int64_t l = 0; l < lines.count(); ++l) {
            const Numbers line = line_of(numbers, lines, l);
            auto found = std::ranges::find_if(line, [](double number) { return std::isnan(number); });
            if (found == line.end()) found = smallest ? std::ranges::min_element(line) : std::ranges::max_element(line);
            values.push_back(*found);
            positions.push_back(static_cast<double>(found - line.begin()));
          }
          const std::string what = std::to_string(extent) + " " + std::string(name(type));
          const std::vector<Numbers> found =
              compute(smallest ? "aten.min.dim" : "aten.max.dim", {{"dim", std::int64_t{1}}}, numbers,
                      {type, lines.shape()}, Lie::turned, {{type, {2, 2}}, {DType::int64, {2, 2}}});
          expect_equal(found[0], values, what);
          expect_equal(found[1], positions, what);
          expect_kernels({extent < 1024 ? KernelId::select_extreme : KernelId::select_extreme_of_long}, what);
        }
      }
    }
  }
}

}  // namespace
}  // namespace meshwright::cuda
