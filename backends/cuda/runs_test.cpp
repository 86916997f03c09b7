// What rows of a table get of positions that name them, some of which are named by many: against plain loops.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "block_kernels.h"
#include "kernels/runs.h"

namespace meshwright::cuda {
namespace {

class Runs : public BlockKernels {
 protected:
  // Rows of a table, a third of which are `frequent`; the rest runs over all rows again and again.
  static Numbers draw_rows(std::int64_t positions, std::int64_t rows, std::int64_t frequent) {
    Numbers named;
    for (std::int64_t i = 0; i < positions; ++i)
      named.push_back(static_cast<double>(i % 3 == 1 ? frequent : i * 7919 % rows));
    return named;
  }
};

INSTANTIATE_TEST_SUITE_P(Run, Runs, testing::Bool(),
                         [](const auto& run) { return std::string(run.param ? "OnAGpu" : "OnTheHost"); });

// So many that pieces have a part of a run, several runs, or none that is theirs alone.
constexpr std::int64_t kCounts[] = {
    0, 1, RunArguments::kPiece - 1, RunArguments::kPiece, RunArguments::kPiece + 1, 256, 257, 1000, 1025, 5000};
constexpr std::int64_t kFrequent[] = {0, 5, 10};

TEST_P(Runs, AddUpGradientsOfEmbeddings) {
  constexpr std::int64_t kRows = 11, kColumns = 3;
  for (const DType type : {DType::float32, DType::bfloat16, DType::float64}) {
    for (const std::int64_t positions : kCounts) {
      for (const std::int64_t frequent : kFrequent) {
        for (const std::int64_t padding : {std::int64_t{-1}, frequent}) {
          const Numbers named = draw_rows(positions, kRows, frequent), rows = draw(positions * kColumns, type, false);
          Numbers expected(kRows * kColumns);
          for (std::size_t i = 0; i < rows.size(); ++i) {
            const auto row = static_cast<std::int64_t>(named[i / kColumns]);
            if (row != padding) expected[static_cast<std::size_t>(row) * kColumns + i % kColumns] += rows[i];
          }
          for (double& number : expected) number = rounded(number, type);
          const std::string what = std::to_string(positions) + " positions, padding " + std::to_string(padding);
          expect_equal(compute("aten.embedding_dense_backward", {{"num_weights", kRows}, {"padding_idx", padding}},
                               {{"grad_output", rows, {type, {positions, kColumns}}},
                                {"indices", named, {DType::int64, {positions}}}},
                               {{type, {kRows, kColumns}}})[0],
                       expected, what);
        }
      }
    }
  }
}

TEST_P(Runs, AreSortedSummedAndJoined) {
  using enum KernelId;
  const auto gradient = [&](std::int64_t positions) {
    compute("aten.embedding_dense_backward", {},
            {{"grad_output", Numbers(static_cast<std::size_t>(positions)), {DType::float32, {positions, 1}}},
             {"indices", Numbers(static_cast<std::size_t>(positions)), {DType::int64, {positions}}}},
            {{DType::float32, {2, 1}}});
  };
  gradient(RunArguments::kPiece);
  expect_kernels({chain, look_up_starts, select_order, sum_runs}, "a piece");
  gradient(RunArguments::kPiece + 1);
  expect_kernels({chain, look_up_starts, select_order, sum_runs, join_runs}, "two pieces");
  gradient(1025);
  expect_kernels({chain, look_up_starts, sort_tiles, merge_runs, sum_runs, join_runs}, "two tiles");
}

// x[:, i, j]: the dimensions that are named stand behind one that is not, and the indices broadcast.
TEST_P(Runs, PutWhatIndicesName) {
  constexpr std::int64_t kOuter = 2, kFirst = 5, kSecond = 3;
  for (const DType type : {DType::float32, DType::int64}) {
    for (const bool adds : {false, true}) {
      for (const std::int64_t half : {1, 40, 700}) {
        const std::int64_t count = 2 * half;
        const Numbers first = draw_rows(half, kFirst, 4), values = draw(kOuter * count, type, false),
                      second{-1, 0};  // from the end
        Numbers table = draw(kOuter * kFirst * kSecond, type, false), expected = table;
        for (std::int64_t o = 0; o < kOuter; ++o) {
          for (std::int64_t p = 0; p < count; ++p) {
            const auto i = static_cast<std::int64_t>(first[static_cast<std::size_t>(p / 2)]);
            double& here = expected[static_cast<std::size_t>((o * kFirst + i) * kSecond + (p % 2 == 0 ? 2 : 0))];
            const double value = values[static_cast<std::size_t>(o * count + p)];
            here = adds ? here + value : value;
          }
        }
        const TensorType whole{type, {kOuter, kFirst, kSecond}};
        expect_equal(compute("aten.index_put", {{"accumulate", adds}},
                             {{"self", table, whole, Lie::turned},
                              {"indices.1", first, {DType::int64, {half, 1}}},
                              {"indices.2", second, {DType::int64, {2}}},
                              {"values", values, {type, {kOuter, half, 2}}, Lie::gaps}},
                             {whole})[0],
                     expected, std::to_string(count) + (adds ? " added" : " put"));
        EXPECT_EQ(launched().back(), count > RunArguments::kPiece ? KernelId::join_runs : KernelId::sum_runs);
      }
    }
  }
}

TEST_P(Runs, ScatterLines) {
  constexpr std::int64_t kBins = 7;
  for (const auto& [lines, count] : std::vector<std::array<std::int64_t, 2>>{{1, 300}, {2, 128}, {2, 300}}) {
    const Numbers named = draw_rows(lines * count, kBins, 3), values = draw(lines * count, DType::float32, false);
    Numbers expected(static_cast<std::size_t>(lines * kBins), 1.0);
    for (std::size_t i = 0; i < values.size(); ++i)
      expected[i / static_cast<std::size_t>(count) * kBins + static_cast<std::size_t>(named[i])] += values[i];
    const TensorType table{DType::float32, {lines, kBins}}, put{DType::float32, {lines, count}};
    expect_equal(compute("aten.scatter_add", {{"dim", std::int64_t{1}}},
                         {{"self", Numbers(static_cast<std::size_t>(lines * kBins), 1.0), table},
                          {"index", named, {DType::int64, put.shape}},
                          {"src", values, put, Lie::turned}},
                         {table})[0],
                 expected, std::to_string(lines));
    EXPECT_EQ(launched().back(), count == 300 ? KernelId::join_runs : KernelId::put);
  }
}

// A long bag of weighted rows, one of a row, and an empty one.
TEST_P(Runs, GiveBagsGradientsToRows) {
  constexpr std::int64_t kRows = 11, kColumns = 3, kCount = 301;
  const Numbers named = draw_rows(kCount, kRows, 5), gradient = draw(3 * kColumns, DType::float64, false),
                weights = draw(kCount, DType::float64, false), offsets{0, 300, 301};
  for (const std::int64_t mode : {0, 1}) {
    Numbers expected(kRows * kColumns);
    for (std::int64_t i = 0; i < kCount; ++i) {
      const std::int64_t bag = i == 300 ? 1 : 0, row = static_cast<std::int64_t>(named[static_cast<std::size_t>(i)]);
      const double share = weights[static_cast<std::size_t>(i)] / (mode == 1 && bag == 0 ? 300 : 1);
      for (std::int64_t c = 0; c < kColumns; ++c)
        expected[static_cast<std::size_t>(row * kColumns + c)] +=
            share * gradient[static_cast<std::size_t>(bag * kColumns + c)];
    }
    const Numbers made = compute("meshwright.embedding_bag_backward", {{"mode", mode}},
                                 {{"grad_output", gradient, {DType::float64, {3, kColumns}}, Lie::turned},
                                  {"indices", named, {DType::int64, {kCount}}, Lie::gaps},
                                  {"offsets", offsets, {DType::int64, {3}}},
                                  {"per_sample_weights", weights, {DType::float64, {kCount}}}},
                                 {{DType::float64, {kRows, kColumns}}})[0];
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(made[i], expected[i], 1e-10) << i;
    EXPECT_EQ(launched().back(), KernelId::join_runs);
  }
}

TEST_P(Runs, SayThatAnIndexIsOutside) {
  for (const double index : {-1.0, 0.0, 5.0, 6.0}) {
    const bool is_outside = index < 0 || index > 5;
    for (const std::int64_t lines : {1, 2}) {
      for (const std::int64_t count : {2, 130}) {
        const auto size = static_cast<std::size_t>(lines * count);
        Numbers named(size, 3.0);
        named[1] = index;
        const TensorType table{DType::float32, {lines, 6}}, put{DType::float32, {lines, count}};
        const auto scatter = [&](const char* op) {
          compute(op, {{"dim", std::int64_t{1}}, {"reduce", std::string("amax")}},
                  {{"self", Numbers(static_cast<std::size_t>(lines * 6)), table},
                   {"index", named, {DType::int64, put.shape}},
                   {"src", Numbers(size), put}},
                  {table});
          return fault_ != 0;
        };
        EXPECT_EQ(scatter("aten.scatter_reduce.two"), is_outside) << index << " of " << lines << "x" << count;
        EXPECT_EQ(scatter("aten.scatter_add"), index > 5) << index << " of " << lines << "x" << count;
      }
    }
  }
  const TensorType numbers{DType::int64, {2}}, made{DType::float32, {2, 3}};
  const auto look_up = [&](const Numbers& indices, const Numbers& offsets) {
    compute("aten._embedding_bag", {},
            {{"weight", Numbers(18), {DType::float32, {6, 3}}},
             {"indices", indices, numbers},
             {"offsets", offsets, numbers}},
            {made, numbers, numbers, numbers});
    return fault_ != 0;
  };
  EXPECT_FALSE(look_up({0, 5}, {0, 1}));
  EXPECT_FALSE(look_up({0, 5}, {0, 2}));
  EXPECT_TRUE(look_up({0, 6}, {0, 1}));
  EXPECT_TRUE(look_up({-1, 5}, {0, 1}));
  EXPECT_TRUE(look_up({0, 5}, {1, 1})) << "an index before the first bag";
  EXPECT_TRUE(look_up({0, 5}, {0, -1})) << "offsets that fall";
}

}  // namespace
}  // namespace meshwright::cuda
