// What tests of kernels of blocks, and of what is sorted by them, share: numbers, and how an op's kernels run on some,
// on the host and on a GPU where there is one. Numbers are multiples of 1/8, so that sums are exact in whatever order
// they are made.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "gpu.h"
#include "guarded_kernel.h"
#include "op_writer.h"

namespace meshwright::cuda {

constexpr std::size_t kRoom = std::size_t{6} << 20U;

class NoFamilies final : public OpTable {
 public:
  [[nodiscard]] const OpFamily* find(std::string_view) const override { return nullptr; }
};

// `lines` before and behind the dimension of `extent` elements.
struct Lines {
  std::int64_t outer = 1, extent = 1, inner = 1;
  [[nodiscard]] std::vector<std::int64_t> shape() const { return {outer, extent, inner}; }
  [[nodiscard]] std::int64_t count() const { return outer * inner; }
  // Of the row-major order.
  [[nodiscard]] std::int64_t at(std::int64_t line, std::int64_t i) const {
    return (line / inner * extent + i) * inner + line % inner;
  }
};

// Row by row, turned so that the first dimension lies innermost, or with two elements left out behind each one.
enum class Lie { rows, turned, gaps };

using Numbers = std::vector<double>;

inline Element element_of(DType type) { return static_cast<Element>(type); }

// As kernels round it.
inline double rounded(double number, DType type) {
  std::int64_t place = 0;
  store(&place, element_of(type), 0, number);
  return load(&place, element_of(type), 0);
}

// Again and again the same ones; of integers that a float does not hold, and of floats, where `specials` is true, some
// that are none.
inline Numbers draw(std::int64_t count, DType type, bool specials) {
  Numbers numbers(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    double number = static_cast<double>(i * 7919 % 97);
    if (type == DType::int64) number += specials ? 0x1p30 : -40;
    if (is_floating(type)) number = number / 8 - 4;
    if (type == DType::float64 && specials) number += static_cast<double>(i % 3) * 0x1p-40;
    if (is_floating(type) && specials && i % 53 == 5) number = NAN;
    if (is_floating(type) && specials && i % 211 == 7) number = i % 2 == 0 ? INFINITY : -INFINITY;
    numbers[static_cast<std::size_t>(i)] = rounded(number, type);
  }
  return numbers;
}

inline Numbers line_of(const Numbers& numbers, const Lines& lines, std::int64_t line) {
  Numbers made;
  for (std::int64_t i = 0; i < lines.extent; ++i) made.push_back(numbers[static_cast<std::size_t>(lines.at(line, i))]);
  return made;
}

inline void expect_equal(const Numbers& made, const Numbers& expected, const std::string& what) {
  ASSERT_EQ(made.size(), expected.size()) << what;
  for (std::size_t i = 0; i < made.size(); ++i)
    ASSERT_TRUE(made[i] == expected[i] || (std::isnan(made[i]) && std::isnan(expected[i])))
        << what << ": element " << i << " is " << made[i] << ", and should be " << expected[i];
}

class BlockKernels : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!GetParam()) return;
    const Status opened = gpu_.open();
    if (Gpu::is_absent(opened)) GTEST_SKIP() << opened.error().message;
    ASSERT_TRUE(opened) << opened.error().message;
  }

  struct Given {
    std::string name;
    Numbers numbers;
    TensorType type;
    Lie lie = Lie::rows;
  };

  // What the op gives; in `work_` what computes it, in `fault_` what it says of indices.
  std::vector<Numbers> compute(const std::string& op, Attributes attributes, const std::vector<Given>& given,
                               const std::vector<TensorType>& made) {
    return compute(find_op(op), op, std::move(attributes), given, made);
  }
  // The same of what `write` writes. `what`: of messages.
  std::vector<Numbers> compute(WriteOp write, const std::string& what, Attributes attributes,
                               const std::vector<Given>& given, const std::vector<TensorType>& made) {
    Node node;
    node.op = what;
    node.attributes = std::move(attributes);
    OpCall call{node, {}, made};
    std::vector<Seen> operands;
    block_.assign(kRoom, std::byte{0xff});
    used_ = 0;
    for (const Given& each : given) {
      node.operands.push_back({each.name, static_cast<ValueId>(node.operands.size())});
      call.operands.push_back(each.type);
      operands.push_back(place(each.numbers, each.type, each.lie));
    }
    std::vector<Seen> results;
    for (const TensorType& result : made)
      results.push_back(seen_at(take(static_cast<std::size_t>(result.bytes())), result));
    std::byte* const fault = take(sizeof fault_);
    std::memset(on_host(fault), 0, sizeof fault_);
    work_.clear();
    OpWriter writer(
        call, views_, {}, operands, results, [this](std::size_t bytes) { return take(bytes); }, work_);
    writer.fault_word = reinterpret_cast<std::int32_t*>(fault);
    const Status written = write(writer);
    EXPECT_TRUE(written) << written.error().message;
    run(what);
    std::memcpy(&fault_, on_host(fault), sizeof fault_);
    std::vector<Numbers> computed;
    for (const Seen& result : results) {
      Numbers& read = computed.emplace_back();
      for (std::int64_t i = 0; i < result.type.elements(); ++i)
        read.push_back(load(on_host(result.data), element_of(result.type.dtype), i));
    }
    return computed;
  }
  std::vector<Numbers> compute(const std::string& op, Attributes attributes, const Numbers& numbers,
                               const TensorType& type, Lie lie, const std::vector<TensorType>& made) {
    return compute(op, std::move(attributes), {{"self", numbers, type, lie}}, made);
  }

  [[nodiscard]] std::vector<KernelId> launched() const {
    std::vector<KernelId> all;
    for (const Work& each : work_) all.push_back(std::get<Launch>(each).kernel);
    return all;
  }

  void expect_kernels(const std::vector<KernelId>& expected, const std::string& what) const {
    const auto names = [](const std::vector<KernelId>& ids) {
      std::string all;
      for (const KernelId id : ids) all += std::string(kernel(id).name) + " ";
      return all;
    };
    EXPECT_EQ(names(launched()), names(expected)) << what;
  }

  std::vector<Work> work_;
  std::int32_t fault_ = 0;  // what the latest computation said of indices that are outside

 private:
  std::byte* begin() { return GetParam() ? gpu_.memory() : block_.data(); }
  std::byte* on_host(const std::byte* at) { return block_.data() + (at - begin()); }
  std::byte* take(std::size_t bytes) {
    std::byte* taken = begin() + used_;
    used_ += (bytes + 255) / 256 * 256;
    EXPECT_LE(used_, kRoom);
    return taken;
  }

  // Memory that nobody has written is NaN.
  Seen place(const Numbers& numbers, const TensorType& type, Lie lie) {
    Seen seen = seen_at(begin() + used_, type);
    const std::vector<std::int64_t> rows = seen.strides;
    std::int64_t stride = 1;
    for (std::size_t d = 0; d < seen.strides.size(); ++d) {
      if (lie == Lie::gaps) seen.strides[d] *= 3;
      if (lie == Lie::turned) seen.strides[d] = stride;
      stride *= type.shape[d];
    }
    take(seen.range().bytes);
    for (std::int64_t i = 0; i < type.elements(); ++i) {
      std::int64_t at = 0;
      for (std::size_t d = 0; d < rows.size(); ++d) at += i / rows[d] % type.shape[d] * seen.strides[d];
      store(on_host(seen.data), element_of(type.dtype), at, numbers[static_cast<std::size_t>(i)]);
    }
    return seen;
  }

  void run(const std::string& what) {
    if (GetParam()) {
      const Status done = gpu_.run(work_, block_);
      ASSERT_TRUE(done) << what << ": " << done.error().message;
      return;
    }
    const std::span<std::byte> used = std::span(block_).first(used_);
    for (const Work& each : work_) EXPECT_EQ(run_guarded(std::get<Launch>(each), {&used, 1}), "") << what;
  }

  Gpu gpu_{kRoom};
  std::vector<std::byte> block_;
  std::size_t used_ = 0;
  NoFamilies families_;
  ViewFinder views_{families_};
};

}  // namespace meshwright::cuda
