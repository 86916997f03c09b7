// Products of rows with their groups' matrices, in each of the three ways, against plain loops.
#include "grouped_writer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "block_kernels.h"

namespace meshwright::cuda {
namespace {

// Groups of these many rows, whose rows come mixed; the first and the last are another rank's, and so is what is -1.
constexpr std::int64_t kSizes[] = {3, 0, 1, kTile, kTile + 1, 300, 0, 2};
constexpr std::int64_t kGroups = std::size(kSizes) - 2;

Status begin(GroupedWriter& grouped, OpWriter& writer) {
  const Node& node = writer.call.node;
  const Result<Shard> shard = shard_of(node, "groups", kGroups);
  return shard ? grouped.begin(*writer.operand("indices"), *shard, kGroups, node.boolean("may_be_nobodys", true))
               : Status(shard.error());
}

Status write_product(OpWriter& writer) {
  GroupedWriter grouped(writer);
  if (Status status = begin(grouped, writer); !status) return status;
  return grouped.multiply(*writer.operand("rows"), *writer.operand("matrices"),
                          writer.call.node.boolean("is_turned", false), writer.operand("bias"), writer.results[0]);
}

Status write_sums(OpWriter& writer) {
  GroupedWriter grouped(writer);
  if (Status status = begin(grouped, writer); !status) return status;
  const Seen &left = *writer.operand("left"), &right = *writer.operand("right");
  if (Status status = grouped.sum_products(left, right, writer.results[0]); !status) return status;
  return grouped.sum(left, writer.results[1]);
}

// Widths of which tensor cores take pieces, and others.
struct Widths {
  std::int64_t terms, columns;
};
constexpr Widths kWidths[] = {{64, 136}, {8, 8}, {37, 20}, {64, 20}, {40, 130}};

class Grouped : public BlockKernels {
 protected:
  Grouped() {
    std::vector<std::int64_t> left(std::begin(kSizes), std::end(kSizes));
    for (std::int64_t at = 0, most = 0; most < 40; at = (at + 3) % std::ssize(kSizes)) {
      std::int64_t& rest = left[static_cast<std::size_t>(at)];
      most = rest == 0 ? most + 1 : 0;
      if (rest == 0) continue;
      --rest;
      indices_.push_back(static_cast<double>(at));
    }
    indices_.push_back(-1);
  }

  [[nodiscard]] std::int64_t rows() const { return std::ssize(indices_); }
  // Less than 0: nobody's.
  [[nodiscard]] std::int64_t group_of_row(std::int64_t row) const {
    const auto named = static_cast<std::int64_t>(indices_[static_cast<std::size_t>(row)]);
    return named > kGroups ? -1 : named - 1;
  }
  [[nodiscard]] Given indices() const { return {"indices", indices_, {DType::int64, {rows()}}}; }
  static Attributes groups() {
    const auto list = [](std::int64_t number) { return std::vector<std::int64_t>{number}; };
    return {{"groups_atoms", list(kGroups + 2)}, {"groups_extents", list(kGroups)}, {"groups_starts", list(1)}};
  }

  void expect_way(DType type, bool takes_pieces) const {
    const TileWay way = type == DType::float64                    ? TileWay::plain
                        : type == DType::bfloat16 && takes_pieces ? TileWay::tensors
                                                                  : TileWay::floats;
    GroupedArguments arguments;
    std::memcpy(&arguments, std::get<Launch>(work_[2]).arguments.data(), sizeof arguments);
    EXPECT_EQ(arguments.way, way);
  }

  Numbers indices_;
};

INSTANTIATE_TEST_SUITE_P(Run, Grouped, testing::Bool(),
                         [](const auto& run) { return std::string(run.param ? "OnAGpu" : "OnTheHost"); });

std::string named(DType type, const Widths& widths) {
  return std::string(name(type)) + " of " + std::to_string(widths.terms) + " and " + std::to_string(widths.columns);
}

TEST_P(Grouped, MultiplyRows) {
  for (const DType type : {DType::float64, DType::float32, DType::bfloat16}) {
    for (const Widths& widths : kWidths) {
      const auto [terms, columns] = widths;
      const Numbers given = draw(rows() * terms, type, false), matrices = draw(kGroups * columns * terms, type, false),
                    bias = draw(kGroups * columns, type, false);
      for (const bool is_turned : {false, true}) {
        Numbers expected;
        for (std::int64_t row = 0; row < rows(); ++row) {
          const std::int64_t group = group_of_row(row);
          for (std::int64_t column = 0; column < columns; ++column) {
            double sum = group < 0 ? 0 : bias[static_cast<std::size_t>(group * columns + column)];
            for (std::int64_t term = 0; term < terms && group >= 0; ++term) {
              const std::int64_t at = is_turned ? term * columns + column : column * terms + term;
              sum += given[static_cast<std::size_t>(row * terms + term)] *
                     matrices[static_cast<std::size_t>(group * columns * terms + at)];
            }
            expected.push_back(rounded(sum, type));
          }
        }
        Attributes attributes = groups();
        attributes["is_turned"] = is_turned;
        const std::vector<std::int64_t> shape =
            is_turned ? std::vector{kGroups, terms, columns} : std::vector{kGroups, columns, terms};
        const std::string what = named(type, widths) + (is_turned ? ", turned" : "");
        expect_equal(compute(write_product, "a product", attributes,
                             {{"rows", given, {type, {rows(), terms}}},
                              {"matrices", matrices, {type, shape}},
                              {"bias", bias, {type, {kGroups, columns}}},
                              indices()},
                             {{type, {rows(), columns}}})[0],
                     expected, what);
        expect_way(type, terms % 8 == 0 && (!is_turned || columns % 8 == 0));
      }
    }
  }
}

TEST_P(Grouped, SumProductsOfRows) {
  for (const DType type : {DType::float64, DType::float32, DType::bfloat16}) {
    for (const Widths& widths : kWidths) {
      const auto [below, aside] = widths;
      const Numbers left = draw(rows() * below, type, false), right = draw(rows() * aside, type, false);
      Numbers products(static_cast<std::size_t>(kGroups * below * aside)),
          sums(static_cast<std::size_t>(kGroups * below));
      for (std::int64_t row = 0; row < rows(); ++row) {
        const std::int64_t group = group_of_row(row);
        for (std::int64_t l = 0; l < below && group >= 0; ++l) {
          const double number = left[static_cast<std::size_t>(row * below + l)];
          sums[static_cast<std::size_t>(group * below + l)] += number;
          for (std::int64_t r = 0; r < aside; ++r)
            products[static_cast<std::size_t>((group * below + l) * aside + r)] +=
                number * right[static_cast<std::size_t>(row * aside + r)];
        }
      }
      for (Numbers* numbers : {&products, &sums}) {
        for (double& number : *numbers) number = rounded(number, type);
      }
      const std::vector<Numbers> made =
          compute(write_sums, "sums", groups(),
                  {{"left", left, {type, {rows(), below}}}, {"right", right, {type, {rows(), aside}}}, indices()},
                  {{type, {kGroups, below, aside}}, {type, {kGroups, below}}});
      expect_equal(made[0], products, named(type, widths) + ", products");
      expect_equal(made[1], sums, named(type, widths) + ", sums");
      expect_way(type, below % 8 == 0 && aside % 8 == 0);
    }
  }
}

// Groups of another rank are none of those.
TEST_P(Grouped, SayWhichRowsAreNobodysAnywhere) {
  constexpr std::int64_t kTerms = 8;
  const Numbers matrices = draw(kGroups * kTerms * kTerms, DType::float32, false);
  const auto fault_of = [&](const Numbers& named, bool may_be_nobodys) {
    const auto count = std::ssize(named);
    Attributes attributes = groups();
    attributes["may_be_nobodys"] = may_be_nobodys;
    compute(write_product, "a product", attributes,
            {{"rows", draw(count * kTerms, DType::float32, false), {DType::float32, {count, kTerms}}},
             {"matrices", matrices, {DType::float32, {kGroups, kTerms, kTerms}}},
             {"indices", named, {DType::int64, {count}}}},
            {{DType::float32, {count, kTerms}}});
    return fault_;
  };
  EXPECT_EQ(fault_of({0, 1, kGroups, kGroups + 1}, false), 0);
  EXPECT_EQ(fault_of({1, kGroups + 2}, false), 1);
  EXPECT_EQ(fault_of({1, -1}, false), 1);
  EXPECT_EQ(fault_of({1, -1}, true), 0);
}

}  // namespace
}  // namespace meshwright::cuda
