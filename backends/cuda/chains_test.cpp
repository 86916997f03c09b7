// Chains of pointwise functions against the same functions one by one, in one block whose places overlap or not.
#include "chains.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include "guarded_kernel.h"

namespace meshwright::cuda {
namespace {

constexpr std::int64_t kElements = 21;  // two threads have all that they can take, a third one less
constexpr std::size_t kSlot = 96;       // bytes: room for so many floats, at multiples of 16
constexpr std::size_t kSlots = 6;

class Chains : public testing::Test {
 protected:
  std::byte* slot(std::size_t number, std::size_t offset = 0) { return block_.data() + number * kSlot + offset; }

  static View view_of(std::byte* data, Element element) {
    View view;
    view.data = data;
    view.element = element;
    view.strides[0] = 1;
    return view;
  }

  // result = function(a, b)
  static Launch link(Function function, const View& a, const View& b, const View& result, double number = 1) {
    PointwiseArguments arguments;
    arguments.function = function;
    arguments.operands = 2;
    arguments.number = number;
    arguments.sizes.rank = 1;
    arguments.sizes.of[0] = kElements;
    arguments.operand[0] = a;
    arguments.operand[1] = b;
    arguments.result = result;
    const std::optional<Launch> made = chain_of(arguments, kElements);
    EXPECT_TRUE(made);
    return *made;
  }

  void fill() {
    for (std::size_t i = 0; i < block_.size() / 2; ++i)
      store(block_.data(), Element::bfloat16, static_cast<std::int64_t>(i), 0.25 + 0.125 * static_cast<double>(i % 7));
  }
  std::vector<std::byte> after(const std::vector<Launch>& launches) {
    fill();
    const std::span<std::byte> block = block_;
    for (const Launch& launch : launches) EXPECT_EQ(run_guarded(launch, {&block, 1}), "");
    return {block_.begin(), block_.end()};
  }

  alignas(16) std::array<std::byte, kSlot * kSlots> block_{};
};

// Whatever overlaps whatever: what is joined gives the same, and most of it is joined.
TEST_F(Chains, ComputeWhatTheirLinksDo) {
  std::mt19937 random(3);
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  const Function functions[] = {Function::add, Function::multiply, Function::tanh_slope, Function::maximum};
  int joins = 0, refusals = 0;
  for (int i = 0; i < 500; ++i) {
    std::vector<Launch> apart;
    std::vector<Launch> together;
    const auto draw = [&] {
      const Element element = below(4) == 0 ? Element::float32 : Element::bfloat16;
      return view_of(slot(below(kSlots - 1), below(3) == 0 ? 16 : 0), element);
    };
    View last = draw();
    for (int l = 0; l < 6; ++l) {
      const View b = draw();
      View result = draw();
      // What overlaps its own result otherwise than element by element is none.
      PointwiseArguments asked;
      asked.operands = 2;
      asked.function = Function::add;
      asked.sizes.rank = 1;
      asked.operand[0] = last;
      asked.operand[1] = b;
      asked.result = result;
      if (!chain_of(asked, kElements)) continue;
      apart.push_back(link(functions[below(4)], last, b, result));
      last = result;
      const std::optional<Launch> both = together.empty() ? std::nullopt : joined(together.back(), apart.back());
      if (both) {
        together.back() = *both;
        ++joins;
      } else {
        refusals += together.empty() ? 0 : 1;
        together.push_back(apart.back());
      }
    }
    const std::vector<std::byte> expected = after(apart);
    ASSERT_EQ(after(together), expected) << "chains " << i;
  }
  EXPECT_GT(joins, 300);
  EXPECT_GT(refusals, 100);
}

TEST_F(Chains, KeepInRegistersWhatNobodyElseReads) {
  const View a = view_of(slot(0), Element::bfloat16), b = view_of(slot(1), Element::bfloat16),
             between = view_of(slot(2), Element::bfloat16), result = view_of(slot(3), Element::bfloat16);
  const std::vector<Launch> apart{link(Function::multiply, a, b, between), link(Function::add, between, b, result)};
  const std::vector<std::byte> expected = after(apart);
  std::optional<Launch> both = joined(apart[0], apart[1]);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->writes.size(), 2U);
  keep_in_registers(*both, slot(2));
  EXPECT_EQ(both->writes.size(), 1U);
  std::vector<std::byte> made = after({*both});
  EXPECT_TRUE(std::equal(made.begin() + 3 * kSlot, made.end(), expected.begin() + 3 * kSlot));
  fill();
  EXPECT_EQ(std::memcmp(made.data() + 2 * kSlot, slot(2), kSlot), 0) << "it is written";
}

// The last link's result is for others; so is what a later link reads from memory.
TEST_F(Chains, KeepInMemoryWhatOthersRead) {
  const View a = view_of(slot(0), Element::bfloat16), b = view_of(slot(1), Element::bfloat16),
             between = view_of(slot(2), Element::bfloat16), result = view_of(slot(3), Element::bfloat16),
             other = view_of(slot(4), Element::bfloat16);
  const Launch first = link(Function::multiply, a, b, between), second = link(Function::add, between, b, result),
               third = link(Function::add, result, between, other);
  std::optional<Launch> chain = joined(first, second);
  ASSERT_TRUE(chain);
  keep_in_registers(*chain, slot(3));
  keep_in_registers(*chain, slot(5));
  EXPECT_EQ(chain->writes.size(), 2U);
  chain = joined(*chain, third);
  ASSERT_TRUE(chain);
  EXPECT_EQ(reads_within(*chain, slot(2)), 2U);
  EXPECT_EQ(reads_within(*chain, slot(3)), 1U);
  EXPECT_EQ(reads_within(*chain, slot(1)), 2U);
  const std::vector<std::byte> expected = after({*chain});
  keep_in_registers(*chain, slot(2));
  EXPECT_EQ(chain->writes.size(), 3U);
  EXPECT_EQ(after({*chain}), expected);
  // Compiled, it is not even written.
  const Touched touched = touched_by_compiled(*chain);
  ASSERT_EQ(touched.writes.size(), 2U);
  EXPECT_EQ(touched.writes[0].begin, slot(3));
  EXPECT_EQ(touched.writes[1].begin, slot(4));
  ASSERT_EQ(touched.reads.size(), 3U);
  for (const Range& range : touched.reads) EXPECT_NE(range.begin, slot(2));
}

TEST_F(Chains, MakeWhatLiesRowByRow) {
  PointwiseArguments arguments;
  arguments.function = Function::negate;
  arguments.operands = 1;
  arguments.sizes.rank = 1;
  arguments.sizes.of[0] = kElements;
  arguments.operand[0] = view_of(slot(0), Element::float32);
  arguments.result = view_of(slot(1), Element::float32);
  EXPECT_TRUE(chain_of(arguments, kElements));
  PointwiseArguments repeated = arguments;
  repeated.operand[0].strides[0] = 0;
  EXPECT_TRUE(chain_of(repeated, kElements));
  for (const auto& change : std::vector<void (*)(PointwiseArguments&)>{
           [](PointwiseArguments& a) { a.operand[0].strides[0] = 2; },
           [](PointwiseArguments& a) { a.operand[0].element = Element::int64; },
           [](PointwiseArguments& a) { a.result.element = Element::float64; },
           [](PointwiseArguments& a) { a.function = Function::power; },
           [](PointwiseArguments& a) { a.result.data = static_cast<std::byte*>(a.result.data) + 4; },
           [](PointwiseArguments& a) { a.result.strides[0] = 2; }}) {
    PointwiseArguments changed = arguments;
    change(changed);
    EXPECT_FALSE(chain_of(changed, kElements));
  }
}

// Rows whose size pieces divide; operands at strides of whole pieces, or repeated along them.
TEST_F(Chains, TakeWhatLiesAtStridesOfPieces) {
  PointwiseArguments arguments;
  arguments.function = Function::negate;
  arguments.operands = 1;
  arguments.sizes = {2, {2, 2 * kTogether}};
  const auto operand = [&](std::int64_t outer, std::int64_t inner, std::size_t offset = 0) {
    PointwiseArguments asked = arguments;
    asked.operand[0] = view_of(slot(0, offset), Element::bfloat16);
    asked.operand[0].strides[0] = outer;
    asked.operand[0].strides[1] = inner;
    asked.result = view_of(slot(2), Element::bfloat16);
    asked.result.strides[0] = asked.sizes.of[1];
    asked.result.strides[1] = 1;
    return asked;
  };
  const auto is_chain = [&](const PointwiseArguments& asked) {
    return chain_of(asked, asked.sizes.of[0] * asked.sizes.of[1]).has_value();
  };
  for (const auto& [outer, inner] : {std::pair{0, 1}, {16, 1}, {24, 1}, {1, 0}, {5, 0}, {0, 0}})
    EXPECT_TRUE(is_chain(operand(outer, inner))) << outer << " " << inner;
  EXPECT_TRUE(is_chain(operand(3, 0, 2)));
  EXPECT_FALSE(is_chain(operand(20, 1)));
  EXPECT_FALSE(is_chain(operand(24, 2)));
  EXPECT_FALSE(is_chain(operand(24, 1, 2)));
  arguments.sizes.of[1] = 2 * kTogether - 1;
  EXPECT_FALSE(is_chain(operand(24, 1)));
}

// They go over the same dimensions, and have room for so many strides.
TEST_F(Chains, JoinWhatGoesOverTheSameDimensions) {
  const auto chain = [&](std::int64_t rows, std::int64_t outer, std::int64_t inner, std::size_t result) {
    PointwiseArguments arguments;
    arguments.function = Function::negate;
    arguments.operands = 1;
    arguments.sizes = {2, {rows, 2 * kTogether / rows * 2}};
    arguments.operand[0] = view_of(slot(0), Element::bfloat16);
    arguments.operand[0].strides[0] = outer;
    arguments.operand[0].strides[1] = inner;
    arguments.result = view_of(slot(result), Element::bfloat16);
    arguments.result.strides[0] = arguments.sizes.of[1];
    arguments.result.strides[1] = 1;
    return *chain_of(arguments, 4 * kTogether);
  };
  EXPECT_TRUE(joined(chain(2, 0, 1, 2), chain(2, 1, 0, 3)));
  EXPECT_FALSE(joined(chain(2, 0, 1, 2), chain(4, 0, 1, 3)));
  std::optional<Launch> many = chain(2, 0, 0, 2);
  for (std::int64_t outer = 1; outer < ChainArguments::kMaxStrides; ++outer) {
    many = joined(*many, chain(2, outer, 0, 2));
    ASSERT_TRUE(many) << outer;
  }
  EXPECT_TRUE(joined(*many, chain(2, 1, 0, 2)));
  EXPECT_FALSE(joined(*many, chain(2, ChainArguments::kMaxStrides, 0, 2)));
  EXPECT_TRUE(joined(*many, chain(2, 16, 1, 2)));  // as what is made does
}

}  // namespace
}  // namespace meshwright::cuda
