// Products of random shapes for tests: places, strides and transposes of all kinds, in one block of floats,
// behind which the same numbers stand as bfloat16.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "product.h"

namespace meshwright::cuda {

// Where the numbers of a product lie in the block; the shape's places fit.
struct DrawnProduct {
  ProductShape shape;
  std::size_t a = 0, b = 0, addend = 0, bias = 0, result = 0, aux = 0, workspace = 0, floats = 0;  // in floats
  float alpha = 1, beta = 1;

  // `block`: floats, and behind them, where a type is bfloat16, as many of those.
  [[nodiscard]] Product in(std::byte* block, std::size_t workspace_bytes) const {
    const auto at = [&](std::size_t before, DType dtype) {
      return dtype == DType::bfloat16 ? block + floats * sizeof(float) + before * sizeof(BFloat16)
                                      : block + before * sizeof(float);
    };
    std::byte* room = at(workspace, DType::float32);
    room += (256 - reinterpret_cast<std::uintptr_t>(room) % 256) % 256;
    return {shape,
            at(a, shape.factors),
            at(b, shape.factors),
            at(addend, shape.made),
            at(bias, shape.made),
            at(result, shape.made),
            at(aux, shape.made),
            alpha,
            beta,
            room,
            workspace_bytes};
  }

  // The block with these numbers.
  [[nodiscard]] std::vector<std::byte> filled(const std::vector<float>& numbers) const {
    std::vector<std::byte> block(floats * (sizeof(float) + sizeof(BFloat16)));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      store(block.data(), Element::float32, at, numbers[i]);
      store(block.data() + floats * sizeof(float), Element::bfloat16, at, numbers[i]);
    }
    return block;
  }
  // What it has before the workspace: floats, and those that were bfloat16.
  [[nodiscard]] std::vector<float> numbers_of(const std::vector<std::byte>& block) const {
    std::vector<float> numbers(2 * workspace);
    for (std::size_t i = 0; i < workspace; ++i) {
      const auto at = static_cast<std::int64_t>(i);
      numbers[i] = load<float>(block.data(), Element::float32, at);
      numbers[workspace + i] = load<float>(block.data() + floats * sizeof(float), Element::bfloat16, at);
    }
    return numbers;
  }

  // Of a number that is not less than 1, by how its sum is rounded: two sums that hardly differ may be neighbours in
  // bfloat16.
  [[nodiscard]] float tolerance() const { return shape.made == DType::bfloat16 ? 0x1p-7F : 1e-5F; }

  // The same product of bfloat16 factors.
  void halve(DType made) {
    shape.factors = DType::bfloat16;
    shape.made = made;
    for (MatrixPlace* place : {&shape.a, &shape.b}) place->alignment /= 2;
    if (made == DType::float32) return;
    for (MatrixPlace* place : {&shape.addend, &shape.result}) place->alignment /= 2;
    shape.bias /= 2;
  }
};

// With all that a library's choice depends on, for whoever reads that it failed.
inline std::string to_string(const DrawnProduct& drawn) {
  const auto place = [](const char* name, const MatrixPlace& of) {
    return std::string("; ") + name + (of.is_transposed ? " transposed" : "") + ", leading " +
           std::to_string(of.leading) + ", batch " + std::to_string(of.batch) + ", aligned to " +
           std::to_string(of.alignment);
  };
  const ProductShape& shape = drawn.shape;
  return to_string(shape) + place("a", shape.a) + place("b", shape.b) + place("result", shape.result) +
         (shape.adds ? place("addend", shape.addend) : "") +
         (shape.bias != 0 ? "; bias aligned to " + std::to_string(shape.bias) : "") +
         (shape.keeps ? place("aux", shape.aux) : "");
}

class ProductDrawer {
 public:
  explicit ProductDrawer(std::uint32_t seed) : random_(seed) {}

  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(bound));
  }

  // Dimensions of at most so many elements, and room for a workspace behind all else.
  DrawnProduct draw(std::int64_t most, std::size_t workspace_bytes) {
    DrawnProduct made;
    ProductShape& shape = made.shape;
    shape.m = 1 + below(most);
    shape.n = 1 + below(most);
    shape.k = 1 + below(most);
    shape.batches = below(2) == 0 ? 1 : 1 + below(4);
    shape.adds = below(2) == 0;
    made.a = place(shape.a, shape.m, shape.k, below(2) == 0, shape.batches, true, made.floats);
    made.b = place(shape.b, shape.k, shape.n, below(2) == 0, shape.batches, true, made.floats);
    made.result = place(shape.result, shape.m, shape.n, false, shape.batches, false, made.floats);
    made.addend = made.result;
    shape.addend = shape.result;
    if (shape.adds && below(2) == 0)
      made.addend = place(shape.addend, shape.m, shape.n, false, shape.batches, false, made.floats);
    if (shape.batches == 1 && below(2) == 0) {
      MatrixPlace row;
      made.bias = place(row, 1, shape.n, false, 1, false, made.floats);
      shape.bias = row.alignment;
    }
    constexpr Activation kActivations[] = {Activation::none, Activation::none, Activation::relu, Activation::gelu};
    shape.activation = kActivations[below(4)];
    const bool adds_in_place = shape.adds && made.addend == made.result;
    if (shape.activation == Activation::gelu && !adds_in_place && below(3) != 0) draw_aux(made);
    made.workspace = (made.floats + 63) / 64 * 64;
    made.floats = (made.workspace + (workspace_bytes + 256) / sizeof(float) + 63) / 64 * 64;
    made.alpha = below(2) == 0 ? 1.0F : 0.5F;
    made.beta = below(2) == 0 ? 1.0F : -1.5F;
    return made;
  }

  std::vector<float> numbers(std::size_t count) {
    std::vector<float> made(count);
    for (float& number : made) number = std::uniform_real_distribution<float>(-1, 1)(random_);
    return made;
  }

 private:
  // As cuBLASLt wants it: in bfloat16, too, it begins at a multiple of 16 bytes.
  void draw_aux(DrawnProduct& made) {
    ProductShape& shape = made.shape;
    shape.keeps = true;
    shape.aux.leading = (shape.n + 7) / 8 * 8 + 8 * below(2);
    shape.aux.batch = shape.batches > 1 ? shape.m * shape.aux.leading + 8 * below(2) : 0;
    made.aux = (made.floats + 7) / 8 * 8;
    made.floats =
        made.aux + static_cast<std::size_t>((shape.batches - 1) * shape.aux.batch + shape.m * shape.aux.leading);
  }

  // Takes room for an operand, with gaps between rows and batches, and says where it begins: at any float, half of the
  // time.
  std::size_t place(MatrixPlace& place, std::int64_t rows, std::int64_t columns, bool is_transposed,
                    std::int64_t batches, bool may_share, std::size_t& floats) {
    const std::int64_t stored_rows = is_transposed ? columns : rows, width = is_transposed ? rows : columns;
    const bool has_gaps = below(2) == 0;
    place.is_transposed = is_transposed;
    place.leading = width + (has_gaps ? below(5) : 0);
    const bool shares = batches == 1 || (may_share && below(4) == 0);
    place.batch = shares ? 0 : stored_rows * place.leading + (has_gaps ? below(9) : 0);
    const std::size_t first = (floats + 3) / 4 * 4 + static_cast<std::size_t>(below(2) == 0 ? 0 : below(4));
    place.alignment = first % 4 == 0 ? 16 : first % 2 == 0 ? 8 : 4;
    floats = first + static_cast<std::size_t>((batches - 1) * place.batch + stored_rows * place.leading);
    return first;
  }

  std::mt19937 random_;
};

}  // namespace meshwright::cuda
