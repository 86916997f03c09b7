// Attention as the op is written for cuDNN, with a mask or without, where its operands lie: kernels on the host, and of
// cuDNN's calls their graphs, read as its manual says, or the kernels that stand in their place; against this backend's
// own kernels, which go over rows, and know the mask itself.
#include "attention_dnn.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "dnn_attention_reading.h"
#include "loaded_dnn.h"
#include "meshwright/tensor.h"

namespace meshwright::cuda {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr double kForbidden = -std::numeric_limits<double>::infinity();

enum class Kind { boolean, added, single };  // the last one, of float32, cuDNN is not given

// What runs: kernels alone, cuDNN's graphs, or the kernels in their place.
enum class By { kernels, graphs, stand_ins };

// Where operands are: row by row; as [batches, positions, heads, numbers]; one of three of each position, as a product
// for all of them makes it; in none of cuDNN's orders. A single batch has a stride of 0, as views leave it.
enum class Lie { rows, by_position, packed, apart };

struct Masked {
  const char* name;
  Shape query, key, mask;  // the mask's: empty: there is none
  Kind kind = Kind::boolean;
  bool causal = false;
  bool is_expanded = false;  // over its first dimension, which it has no memory for
};

class NoFamilies final : public OpTable {
 public:
  [[nodiscard]] const OpFamily* find(std::string_view /*op*/) const override { return nullptr; }
};

class AttentionByDnn : public testing::TestWithParam<Masked>, public Keeper {
 protected:
  std::byte* keep(std::optional<std::size_t> operand, std::string what, std::size_t bytes) override {
    EXPECT_FALSE(operand);
    what_ = std::move(what);
    return kept_ = take(bytes);
  }
  [[nodiscard]] std::string identity(std::size_t /*operand*/) const override { return {}; }
  [[nodiscard]] std::byte* kept(std::size_t operand, std::string_view what) const override {
    EXPECT_EQ(what, kept_ == nullptr ? what : what_);
    EXPECT_EQ(operand, 1U);  // the output
    return kept_;
  }

  static constexpr std::size_t kMemory = std::size_t{1} << 20U;

  std::byte* take(std::size_t bytes) {
    std::byte* taken = memory_.data() + used_;
    used_ += (bytes + 255) / 256 * 256;
    EXPECT_LE(used_, kMemory);
    return taken;
  }
  template <class Number>
  Seen draw(DType dtype, const Shape& shape, const Number& number) {
    const TensorType type{dtype, shape};
    Seen seen = seen_at(take(static_cast<std::size_t>(type.bytes())), type);
    for (std::int64_t i = 0; i < type.elements(); ++i) store(seen.data, *element_for(dtype), i, number(i));
    return seen;
  }
  static double number_of(std::int64_t i, int phase) { return std::sin(static_cast<double>(3 * i + phase)); }
  Seen drawn(const Shape& shape, int phase) {
    return draw(DType::bfloat16, shape, [&](std::int64_t i) { return number_of(i, phase); });
  }
  // The same numbers.
  Seen lying(const Seen& rows, Lie lie) {
    if (lie == Lie::rows) return rows;
    const Shape& shape = rows.type.shape;
    const std::int64_t apart = lie == Lie::packed  ? 3
                               : lie == Lie::apart ? 2
                                                   : 1,
                       innermost = lie == Lie::apart ? 2 : 1, position = shape[1] * shape[3] * apart;
    Seen made = rows;
    made.strides = {shape[0] > 1 ? shape[2] * position : 0, shape[3] * innermost, position, innermost};
    made.data = take(static_cast<std::size_t>(rows.type.bytes() * apart)) +
                (lie == Lie::packed ? 2 * static_cast<std::size_t>(shape[1] * shape[3]) : 0);
    for_each_place(made, [&](std::int64_t i, std::int64_t at) {
      store(made.data, Element::bfloat16, at, load(rows.data, Element::bfloat16, i));
    });
    return made;
  }
  // `with(element, where it stands)`
  template <class With>
  static void for_each_place(const Seen& seen, const With& with) {
    const Shape rows = strides_of(seen.type.shape);
    for (std::int64_t i = 0; i < seen.type.elements(); ++i) {
      std::int64_t at = 0;
      for (std::size_t d = 0; d < rows.size(); ++d) at += i / rows[d] % seen.type.shape[d] * seen.strides[d];
      with(i, at);
    }
  }

  // The second row of each mask forbids all; of numbers the third one is far below what float32 adds to a score.
  Seen mask() {
    Shape shape = GetParam().mask;
    const std::int64_t keys = shape.back();
    const auto is_seen = [&](std::int64_t i) { return i / keys != 1 && i * 7 % 3 != 1; };
    if (GetParam().is_expanded) shape[0] = 1;
    Seen made =
        GetParam().kind == Kind::boolean
            ? draw(DType::boolean, shape, [&](std::int64_t i) { return is_seen(i) ? 1.0 : 0.0; })
            : draw(GetParam().kind == Kind::single ? DType::float32 : DType::bfloat16, shape, [&](std::int64_t i) {
                const double number = std::sin(static_cast<double>(5 * i));
                return !is_seen(i) ? kForbidden : i / keys == 2 ? -0x1p30 + 0x1p23 * std::round(number) : number;
              });
    if (!GetParam().is_expanded) return made;
    made.type.shape = GetParam().mask;
    made.strides[0] = 0;
    return made;
  }

  // What the op makes: by cuDNN's graphs, or by this backend's kernels alone.
  std::vector<std::vector<double>> run(const std::string& op, const std::vector<std::pair<const char*, Seen>>& operands,
                                       const std::vector<TensorType>& types, By by) {
    Node node;
    node.op = op;
    node.attributes = {{"is_causal", GetParam().causal}, {"scale", 0.5}};
    if (types.size() > 1) node.attributes["output_mask"] = Shape{1, 1, 1, 0};
    OpCall call{node, {}, types};
    std::vector<Seen> reads, makes;
    for (const auto& [name, seen] : operands) {
      node.operands.push_back({name, static_cast<ValueId>(reads.size())});
      call.operands.push_back(seen.type);
      reads.push_back(seen);
    }
    for (const TensorType& type : types) makes.push_back(seen_at(take(static_cast<std::size_t>(type.bytes())), type));
    LibraryPlans plans;
    if (by != By::kernels)
      plans.dnn = [](const DnnGraph& graph) -> Result<std::optional<std::size_t>> {
        return std::optional(graph.kernel_bytes);
      };
    std::size_t graphs = by == By::kernels || GetParam().kind == Kind::single ? 0 : types.size() > 1 ? 2 : 1;
    copies_ = 0;
    std::vector<Work> work;
    OpWriter writer(
        call, views_, plans, reads, makes, [&](std::size_t bytes) { return take(bytes); }, work);
    if (keeps_) {
      writer.keeper = this;
      graphs = std::min<std::size_t>(graphs, 1);
    }
    const Status written = find_op(op)(writer);
    EXPECT_TRUE(written);
    for (const Work& each : work) {
      if (const auto* launch = std::get_if<Launch>(&each)) {
        copies_ += launch->kernel == KernelId::copy ? 1 : 0;
        kernel(launch->kernel).on_host(launch->arguments.data(), launch->count);
        continue;
      }
      const auto& taken = std::get<DnnCall>(each);
      --graphs;
      if (by == By::stand_ins) {
        for (const Launch& launch : taken.kernels) kernel(launch.kernel).on_host(launch.arguments.data(), launch.count);
        continue;
      }
      AttentionReader(*taken.graph, {taken.tensors.begin(), taken.tensors.end()},
                      {taken.scalars.begin(), taken.scalars.end()})
          .run();
    }
    EXPECT_EQ(graphs, 0);
    std::vector<std::vector<double>> numbers;
    in_rows_ = true;
    for (const Seen& made : writer.results) {
      std::vector<double>& each = numbers.emplace_back();
      in_rows_ = in_rows_ && made.is_contiguous();
      for_each_place(made,
                     [&](std::int64_t, std::int64_t at) { each.push_back(load(made.data, Element::bfloat16, at)); });
    }
    return numbers;
  }

  bool keeps_ = false;  // what the forward made of scores lies beside the output
  std::byte* kept_ = nullptr;
  std::string what_;
  int copies_ = 0;        // of the last run, but for those in cuDNN's place
  bool in_rows_ = false;  // all that it made
  std::vector<std::byte> memory_ = std::vector<std::byte>(kMemory, std::byte{0xff});  // NaN
  std::size_t used_ = 0;
  NoFamilies none_;
  ViewFinder views_{none_};
};

// Up to the rounding of what is between.
void expect_near(const std::vector<std::vector<double>>& made, const std::vector<std::vector<double>>& expected) {
  ASSERT_EQ(made.size(), expected.size());
  for (std::size_t i = 0; i < made.size(); ++i) {
    ASSERT_EQ(made[i].size(), expected[i].size());
    for (std::size_t at = 0; at < made[i].size(); ++at)
      ASSERT_NEAR(made[i][at], expected[i][at], 0.02 + std::abs(expected[i][at]) / 128) << at << " of result " << i;
  }
}

TEST_P(AttentionByDnn, IsWhatTheOpMeans) {
  const Seen query = drawn(GetParam().query, 1), key = drawn(GetParam().key, 2), value = drawn(GetParam().key, 3);
  std::vector<std::pair<const char*, Seen>> operands{{"query", query}, {"key", key}, {"value", value}};
  if (!GetParam().mask.empty()) operands.emplace_back("attn_mask", mask());
  const char* forward = "aten.scaled_dot_product_attention";
  const auto output = run(forward, operands, {query.type}, By::graphs);
  expect_near(output, run(forward, operands, {query.type}, By::kernels));
  const std::int64_t width = GetParam().query.back();
  const bool hides_a_query = GetParam().mask.size() > 1 && *(GetParam().mask.rbegin() + 1) > 1;
  if (hides_a_query) {
    for (std::int64_t i = 0; i < width; ++i) EXPECT_EQ(output[0][static_cast<std::size_t>(width + i)], 0);
  }
  operands.insert(operands.begin(), {{"grad_output", drawn(GetParam().query, 4)},
                                     {"output", draw(DType::bfloat16, GetParam().query, [&](std::int64_t i) {
                                        return output[0][static_cast<std::size_t>(i)];
                                      })}});
  const std::vector<TensorType> types{query.type, key.type, value.type};
  const char* backward = "meshwright.attention_backward";
  const auto gradients = run(backward, operands, types, By::graphs);
  expect_near(gradients, run(backward, operands, types, By::kernels));
  if (hides_a_query) {
    for (std::int64_t i = 0; i < width; ++i) EXPECT_EQ(gradients[0][static_cast<std::size_t>(width + i)], 0);
  }
}

// The backward has what the forward kept, and does not run it again.
TEST_P(AttentionByDnn, IsSparedTheForward) {
  keeps_ = true;
  const Seen query = drawn(GetParam().query, 1), key = drawn(GetParam().key, 2), value = drawn(GetParam().key, 3);
  std::vector<std::pair<const char*, Seen>> operands{{"query", query}, {"key", key}, {"value", value}};
  if (!GetParam().mask.empty()) operands.emplace_back("attn_mask", mask());
  const auto output = run("aten.scaled_dot_product_attention", operands, {query.type}, By::graphs);
  EXPECT_EQ(kept_ != nullptr, GetParam().kind != Kind::single);
  operands.insert(operands.begin(), {{"grad_output", drawn(GetParam().query, 4)},
                                     {"output", draw(DType::bfloat16, GetParam().query, [&](std::int64_t i) {
                                        return output[0][static_cast<std::size_t>(i)];
                                      })}});
  const std::vector<TensorType> types{query.type, key.type, value.type};
  const auto gradients = run("meshwright.attention_backward", operands, types, By::graphs);
  expect_near(gradients, run("meshwright.attention_backward", operands, types, By::kernels));
}

// What the library is given are the operands themselves, and what it makes lies as they do; others are copied.
TEST_P(AttentionByDnn, TakesWhatLiesOtherwise) {
  if (GetParam().query.size() != 4 || GetParam().kind == Kind::single) return;
  const Seen query = drawn(GetParam().query, 1), key = drawn(GetParam().key, 2), value = drawn(GetParam().key, 3),
             output = drawn(GetParam().query, 4), gradient = drawn(GetParam().query, 5);
  std::vector<std::pair<const char*, Seen>> masks;
  if (!GetParam().mask.empty()) masks.emplace_back("attn_mask", mask());
  const auto operands_at = [&](Lie lie, bool is_back) {
    std::vector<std::pair<const char*, Seen>> operands{
        {"query", lying(query, lie)}, {"key", lying(key, lie)}, {"value", lying(value, lie)}};
    if (is_back)
      operands.insert(operands.end(), {{"output", lying(output, lie)}, {"grad_output", lying(gradient, lie)}});
    operands.insert(operands.end(), masks.begin(), masks.end());
    return operands;
  };
  for (const bool is_back : {false, true}) {
    const char* op = is_back ? "meshwright.attention_backward" : "aten.scaled_dot_product_attention";
    const std::vector<TensorType> types =
        is_back ? std::vector{query.type, key.type, value.type} : std::vector{query.type};
    const auto expected = run(op, operands_at(Lie::rows, is_back), types, By::kernels);
    for (const Lie lie : {Lie::rows, Lie::by_position, Lie::packed, Lie::apart}) {
      for (const By by : {By::graphs, By::stand_ins}) {
        used_ = 0;
        const Seen again[] = {drawn(GetParam().query, 1), drawn(GetParam().key, 2), drawn(GetParam().key, 3),
                              drawn(GetParam().query, 4), drawn(GetParam().query, 5)};
        EXPECT_EQ(again[0].data, query.data);
        if (!masks.empty()) mask();
        expect_near(run(op, operands_at(lie, is_back), types, by), expected);
        EXPECT_EQ(copies_, lie != Lie::apart ? 0 : is_back ? 5 : 3);
        const bool lies_otherwise = lie == Lie::by_position || lie == Lie::packed;
        EXPECT_EQ(in_rows_, !lies_otherwise || (!is_back && !masks.empty())) << static_cast<int>(lie);
      }
    }
  }
}

// A row of a mask becomes numbers of which the highest is near 0 and none is infinite; NaN stays.
TEST(AttentionBias, HasNoInfinity) {
  const double lowest = std::numeric_limits<float>::lowest(), nan = std::nan("");
  const std::vector<std::array<double, 3>> rows{{0.5, kForbidden, -1000},      {kForbidden, kForbidden, kForbidden},
                                                {lowest, lowest, lowest},      {-10000, lowest, -9999},
                                                {2048, 2049, kForbidden},      {kForbidden, nan, 1},
                                                {nan, kForbidden, kForbidden}, {-kForbidden, 1, 2}},
      expected{{0.5, -1e30F, -1000}, {0, 0, 0},        {0, 0, 0},       {-1, -1e30F, 0},
               {-1, 0, -1e30F},      {-1e30F, nan, 1}, {nan, nan, nan}, {nan, -1e30F, -1e30F}};
  std::vector<float> mask, made(3 * rows.size());
  for (const auto& row : rows) mask.insert(mask.end(), row.begin(), row.end());
  std::vector<std::uint8_t> unseen(rows.size(), 7);
  AttentionArguments arguments;
  arguments.l = static_cast<std::int64_t>(rows.size());
  arguments.s = 3;
  arguments.has_mask = true;
  arguments.scores = {1, {arguments.l}};
  arguments.mask = {mask.data(), Element::float32, {3}};
  arguments.mask_step = 1;
  arguments.result.data = made.data();
  arguments.unseen = unseen.data();
  kernel(KernelId::attention_bias).on_host(&arguments, arguments.l);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    EXPECT_EQ(unseen[row], row == 1 ? 1 : 0) << row;
    for (std::size_t key = 0; key < 3; ++key) {
      const double number = made[3 * row + key];
      if (std::isnan(expected[row][key]))
        EXPECT_TRUE(std::isnan(number)) << row << " " << key;
      else
        EXPECT_EQ(number, expected[row][key]) << row << " " << key;
    }
  }
}

// cuDNN itself finalizes these graphs, for an H100 that need not be there; which engines it proposes needs a driver.
TEST(AttentionGraph, IsOneThatTheLibraryMakes) {
  LoadedDnn library(false, {"libcudnn.so.9"}, kH100);
  if (!library.is_there()) GTEST_SKIP() << "libcudnn was not found";
  AttentionArguments arguments;
  alignas(16) std::byte memory[16];
  for (View* view : {&arguments.query, &arguments.key, &arguments.value, &arguments.output, &arguments.gradient})
    *view = {memory, Element::bfloat16};
  arguments.l = arguments.s = 128;
  arguments.d = arguments.e = 64;
  arguments.rows = std::int64_t{2} * 4 * 128;
  arguments.repeats = 2;
  ProductPlan plan;
  EntryPoint entry = EntryPoint::dnn_make;
  if (const Code code = library.plan(0, *attention_graph(arguments), plan, entry); code != 0)
    GTEST_SKIP() << "libcudnn plans for no GPU that is not there: " << name(entry) << " " << code;
  const auto expect_made = [&](const std::optional<DnnGraph>& graph) {
    ASSERT_TRUE(graph);
    const Code code = library.plan(0, *graph, plan, entry);
    ASSERT_EQ(code, 0) << name(entry) << ": " << library.text(code) << ", " << graph->name;
  };
  AttentionArguments lying = arguments;  // by position: queries of 4 heads, and keys of 2
  for (View* view : {&lying.query, &lying.output, &lying.gradient})
    *view = {memory, Element::bfloat16, {128 * 256, 64, 256, 1}};
  for (View* view : {&lying.key, &lying.value}) *view = {memory, Element::bfloat16, {128 * 128, 64, 128, 1}};
  expect_made(attention_graph(lying, {}, 4));
  expect_made(attention_gradient_graph(lying, {}, 4));
  arguments.has_mask = true;
  for (const Shape& sizes :
       {Shape{1, 1, 128, 128}, Shape{2, 1, 128, 128}, Shape{1, 4, 128, 128}, Shape{2, 4, 128, 128}}) {
    expect_made(attention_graph(arguments, AttentionBias{4, sizes}));
    expect_made(attention_gradient_graph(arguments, AttentionBias{4, sizes}));
  }
  EXPECT_EQ(library.release(0, entry), 0) << name(entry);
}

INSTANTIATE_TEST_SUITE_P(
    Masks, AttentionByDnn,
    testing::Values(Masked{"none", {2, 3, 5, 8}, {2, 3, 6, 8}, {}},
                    Masked{"none_causal", {2, 3, 5, 16}, {2, 3, 5, 16}, {}, Kind::boolean, true},
                    Masked{"none_of_groups", {2, 4, 3, 8}, {2, 2, 5, 8}, {}},
                    Masked{"none_of_groups_causal", {2, 4, 5, 8}, {2, 1, 5, 8}, {}, Kind::boolean, true},
                    Masked{"none_of_one_batch", {1, 3, 5, 8}, {1, 3, 6, 8}, {}},
                    Masked{"none_of_one_head_of_keys", {1, 4, 5, 8}, {1, 1, 6, 8}, {}},
                    Masked{"of_one_batch", {1, 3, 5, 8}, {1, 3, 6, 8}, {1, 1, 1, 6}},
                    Masked{"shared", {2, 3, 5, 8}, {2, 3, 5, 8}, {1, 1, 5, 5}},
                    Masked{"by_batch", {2, 3, 5, 8}, {2, 3, 5, 8}, {2, 1, 5, 5}},
                    Masked{"by_key", {2, 3, 5, 8}, {2, 3, 6, 8}, {2, 1, 1, 6}},
                    Masked{"by_key_causal", {2, 3, 6, 8}, {2, 3, 6, 8}, {2, 1, 1, 6}, Kind::boolean, true},
                    Masked{"of_two_dimensions", {2, 3, 5, 8}, {2, 3, 5, 8}, {5, 5}, Kind::boolean, true},
                    Masked{"by_head", {2, 3, 4, 8}, {2, 3, 6, 8}, {1, 3, 4, 6}, Kind::added},
                    Masked{"by_head_causal", {2, 3, 4, 8}, {2, 3, 4, 8}, {3, 4, 4}, Kind::added, true},
                    Masked{"of_all", {2, 3, 4, 16}, {2, 3, 6, 16}, {2, 3, 4, 6}, Kind::added},
                    Masked{"of_all_boolean", {2, 3, 4, 8}, {2, 3, 6, 8}, {2, 3, 4, 6}},
                    Masked{"of_keys", {2, 3, 4, 8}, {2, 3, 6, 8}, {6}, Kind::added},
                    Masked{"expanded", {2, 3, 5, 8}, {2, 3, 5, 8}, {2, 1, 5, 5}, Kind::added, false, true},
                    Masked{"of_groups", {2, 4, 3, 8}, {2, 2, 5, 8}, {2, 1, 3, 5}},
                    Masked{"of_groups_causal", {2, 4, 5, 8}, {2, 2, 5, 8}, {2, 1, 5, 5}, Kind::added, true},
                    Masked{"of_groups_by_head", {2, 4, 3, 8}, {2, 2, 5, 8}, {4, 3, 5}, Kind::added},
                    Masked{"of_one_head_of_keys", {2, 4, 3, 8}, {2, 1, 5, 8}, {2, 1, 3, 5}},
                    Masked{"of_float32", {2, 3, 4, 8}, {2, 3, 6, 8}, {2, 1, 4, 6}, Kind::single},
                    Masked{"of_three_dimensions", {3, 4, 8}, {3, 6, 8}, {3, 4, 6}},
                    Masked{"of_five_dimensions", {2, 2, 3, 4, 8}, {2, 2, 3, 4, 8}, {2, 1, 4, 4}, Kind::added},
                    Masked{"of_one_query", {2, 3, 1, 8}, {2, 3, 6, 8}, {2, 1, 1, 6}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace meshwright::cuda
