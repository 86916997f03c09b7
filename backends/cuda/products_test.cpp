// Products as libraries are asked for them: by the recording driver against a loop over indices; read column by column,
// against what a library of columns would make of that; and which operands libraries take at all. The library's own
// call is left to a GPU (gpu_products_test.cpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "host_product.h"
#include "product_writer.h"
#include "random_product.h"
#include "recording_driver.h"

namespace meshwright::cuda {
namespace {

constexpr int kProducts = 300;
constexpr std::size_t kWorkspace = 1024;

// Element (row, column) of a batch, as MatrixPlace says.
std::size_t at(const MatrixPlace& place, std::int64_t batch, std::int64_t row, std::int64_t column) {
  const std::int64_t first = place.is_transposed ? column : row, second = place.is_transposed ? row : column;
  return static_cast<std::size_t>(batch * place.batch + first * place.leading + second);
}

// As PyTorch documents them; GELU with approximate='tanh'.
double activation_of_sum(Activation activation, double x) {
  if (activation == Activation::relu) return std::max(x, 0.0);
  if (activation == Activation::none) return x;
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * std::pow(x, 3))));
}

std::vector<float> multiplied(const DrawnProduct& drawn, const std::vector<float>& block) {
  std::vector<float> made = block;
  const ProductShape& shape = drawn.shape;
  for (std::int64_t batch = 0; batch < shape.batches; ++batch) {
    for (std::int64_t i = 0; i < shape.m; ++i) {
      for (std::int64_t j = 0; j < shape.n; ++j) {
        double sum = 0;
        for (std::int64_t p = 0; p < shape.k; ++p)
          sum += static_cast<double>(block[drawn.a + at(shape.a, batch, i, p)]) *
                 static_cast<double>(block[drawn.b + at(shape.b, batch, p, j)]);
        sum *= static_cast<double>(drawn.alpha);
        if (shape.adds)
          sum += static_cast<double>(drawn.beta) *
                 static_cast<double>(block[drawn.addend + at(shape.addend, batch, i, j)]);
        if (shape.bias != 0) sum += static_cast<double>(block[drawn.bias + static_cast<std::size_t>(j)]);
        if (shape.keeps) made[drawn.aux + at(shape.aux, batch, i, j)] = static_cast<float>(sum);
        made[drawn.result + at(shape.result, batch, i, j)] =
            static_cast<float>(activation_of_sum(shape.activation, sum));
      }
    }
  }
  return made;
}

// As the documentation of cublasLtMatmul says: op(A) is m×k, op(B) k×n, C, D and aux are m×n, and element (row, column)
// of a matrix is at row + column · leading.
std::vector<float> multiplied_by_columns(const DrawnProduct& drawn, const std::vector<float>& block) {
  const ColumnProduct product = by_columns(drawn.shape);
  const auto get = [&](std::size_t first, const ColumnLayout& layout, bool exchanges, std::int32_t batch,
                       std::uint64_t row, std::uint64_t column) {
    if (exchanges) std::swap(row, column);
    EXPECT_LT(row, layout.rows);
    EXPECT_LT(column, layout.columns);
    return first + static_cast<std::size_t>(batch * layout.batch) + row +
           column * static_cast<std::size_t>(layout.leading);
  };
  for (const ColumnLayout* layout : {&product.a, &product.b, &product.c, &product.d})
    EXPECT_GE(layout->leading, static_cast<std::int64_t>(layout->rows));
  const std::uint64_t k = product.transposes_a ? product.a.rows : product.a.columns;
  EXPECT_EQ(k, product.transposes_b ? product.b.columns : product.b.rows);
  EXPECT_EQ(product.d.rows, product.transposes_a ? product.a.columns : product.a.rows);
  EXPECT_EQ(product.d.columns, product.transposes_b ? product.b.rows : product.b.columns);
  std::vector<float> made = block;
  for (std::int32_t batch = 0; batch < product.batches; ++batch) {
    for (std::uint64_t row = 0; row < product.d.rows; ++row) {
      for (std::uint64_t column = 0; column < product.d.columns; ++column) {
        double sum = 0;
        for (std::uint64_t p = 0; p < k; ++p)
          sum += static_cast<double>(block[get(drawn.b, product.a, product.transposes_a, batch, row, p)]) *
                 static_cast<double>(block[get(drawn.a, product.b, product.transposes_b, batch, p, column)]);
        sum *= static_cast<double>(drawn.alpha);
        if (drawn.shape.adds)
          sum += static_cast<double>(drawn.beta) *
                 static_cast<double>(block[get(drawn.addend, product.c, false, batch, row, column)]);
        if (product.bias != 0) sum += static_cast<double>(block[drawn.bias + row]);
        if (product.keeps) made[get(drawn.aux, product.aux, false, batch, row, column)] = static_cast<float>(sum);
        made[get(drawn.result, product.d, false, batch, row, column)] =
            static_cast<float>(activation_of_sum(product.activation, sum));
      }
    }
  }
  return made;
}

// Without what a library does with its workspace.
void expect_same(const DrawnProduct& drawn, const std::vector<float>& made, const std::vector<float>& expected) {
  for (std::size_t i = 0; i < drawn.workspace; ++i)
    ASSERT_NEAR(made[i], expected[i], 1e-5) << to_string(drawn) << ", at " << i;
}

TEST(Products, AreReadColumnByColumn) {
  ProductDrawer drawer(1);
  for (int i = 0; i < kProducts; ++i) {
    const DrawnProduct drawn = drawer.draw(9, 0);
    const std::vector<float> block = drawer.numbers(drawn.floats);
    ASSERT_NO_FATAL_FAILURE(expect_same(drawn, multiplied_by_columns(drawn, block), multiplied(drawn, block)));
  }
}

// A device of the recording driver, with memory and a stream.
class RecordedProducts : public testing::Test {
 protected:
  void start(std::size_t bytes, const std::vector<RecordingOptions::Failure>& failures = {}) {
    driver_ = make_recording_driver({.devices = 1, .seed = 0, .failures = failures});
    EntryPoint entry = EntryPoint::load_module;
    ASSERT_EQ(driver_->set_device(0), 0);
    ASSERT_EQ(driver_->load_kernels(entry), 0);
    ASSERT_EQ(driver_->allocate(memory_, bytes), 0);
    ASSERT_EQ(driver_->stream_create(stream_), 0);
  }
  Code finish() {
    Code code = kNotReady;
    for (int i = 0; i < 100 && code == kNotReady; ++i) code = driver_->stream_query(stream_);
    return code;
  }
  void run(const DrawnProduct& drawn, const std::vector<float>& block) {
    ProductPlan plan;
    EntryPoint entry = EntryPoint::choose_algorithm;
    ASSERT_EQ(driver_->plan_product(drawn.shape, plan, entry), 0);
    ASSERT_TRUE(plan.is_found);
    ASSERT_LE(plan.workspace_bytes, kWorkspace);
    std::memcpy(memory_, block.data(), block.size() * sizeof(float));
    ASSERT_EQ(driver_->product(drawn.in(memory_, plan.workspace_bytes), stream_), 0);
    ASSERT_EQ(finish(), 0);
    ASSERT_TRUE(driver_->check_device(0));
  }

  std::unique_ptr<Driver> driver_;
  std::byte* memory_ = nullptr;
  Stream stream_;
};

TEST_F(RecordedProducts, AreThoseOfALoop) {
  ProductDrawer drawer(2);
  for (int i = 0; i < kProducts; ++i) {
    const DrawnProduct drawn = drawer.draw(12, kWorkspace);
    const std::vector<float> block = drawer.numbers(drawn.floats);
    ASSERT_NO_FATAL_FAILURE(start(drawn.floats * sizeof(float)));
    ASSERT_NO_FATAL_FAILURE(run(drawn, block));
    std::vector<float> made(drawn.floats);
    std::memcpy(made.data(), memory_, drawn.floats * sizeof(float));
    ASSERT_NO_FATAL_FAILURE(expect_same(drawn, made, multiplied(drawn, block)));
  }
}

// As cuBLASLt, which has no algorithm for them, or too little memory.
TEST_F(RecordedProducts, AreRefusedUnplannedAndWithoutTheirWorkspace) {
  const DrawnProduct drawn = ProductDrawer(3).draw(8, kWorkspace);
  ASSERT_NO_FATAL_FAILURE(start(drawn.floats * sizeof(float)));
  EXPECT_NE(driver_->product(drawn.in(memory_, kWorkspace), stream_), 0);
  ProductPlan plan;
  EntryPoint entry = EntryPoint::choose_algorithm;
  ASSERT_EQ(driver_->plan_product(drawn.shape, plan, entry), 0);
  EXPECT_EQ(driver_->product(drawn.in(memory_, kWorkspace), stream_), 0);
  EXPECT_NE(driver_->product(drawn.in(memory_, plan.workspace_bytes - 1), stream_), 0);
  EXPECT_NE(driver_->product(drawn.in(memory_ + drawn.floats * sizeof(float), kWorkspace), stream_), 0);
  ASSERT_EQ(driver_->release_products(entry), 0);
  EXPECT_NE(driver_->product(drawn.in(memory_, kWorkspace), stream_), 0);
}

// Each shape once; by name where one fails.
TEST_F(RecordedProducts, ArePlannedOnceForEachShape) {
  DrawnProduct drawn = ProductDrawer(4).draw(8, kWorkspace);
  ASSERT_NO_FATAL_FAILURE(start(drawn.floats * sizeof(float), {{EntryPoint::choose_algorithm, 2, 15}}));
  ProductPlan plan;
  EntryPoint entry = EntryPoint::products_create;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(driver_->plan_product(drawn.shape, plan, entry), 0);
  ++drawn.shape.m;
  EXPECT_EQ(driver_->plan_product(drawn.shape, plan, entry), 15);
  EXPECT_EQ(entry, EntryPoint::choose_algorithm);
  EXPECT_EQ(driver_->plan_product(drawn.shape, plan, entry), 0);
}

// Strides of batches, rows and columns.
View view_of(float* data, std::array<std::int64_t, 3> strides) {
  View view;
  view.data = data;
  view.strides[0] = strides[0];
  view.strides[ProductArguments::kRow] = strides[1];
  view.strides[ProductArguments::kColumn] = strides[2];
  return view;
}

class TakenByLibraries : public testing::Test {
 protected:
  // 2 of 3×4 · 4×5, without gaps.
  TakenByLibraries() {
    arguments_.batch.rank = 1;
    arguments_.batch.of[0] = 2;
    arguments_.m = 3;
    arguments_.n = 5;
    arguments_.k = 4;
    arguments_.a = view_of(numbers_, {12, 4, 1});
    arguments_.b = view_of(numbers_ + 64, {20, 5, 1});
    arguments_.result = view_of(numbers_ + 128, {15, 5, 1});
  }
  [[nodiscard]] bool is_taken() const { return library_product(arguments_, true).has_value(); }

  alignas(16) float numbers_[256] = {};
  ProductArguments arguments_;
};

TEST_F(TakenByLibraries, RowsAndColumns) {
  const auto plain = library_product(arguments_, true);
  ASSERT_TRUE(plain);
  EXPECT_EQ(to_string(plain->product.shape), "2 of 3×4·4×5");
  EXPECT_FALSE(plain->product.shape.a.is_transposed);
  arguments_.a = view_of(numbers_ + 2, {20, 1, 6});
  const auto turned = library_product(arguments_, true);
  ASSERT_TRUE(turned);
  EXPECT_EQ(turned->product.shape.a, (MatrixPlace{true, 6, 20, 8}));
}

TEST_F(TakenByLibraries, NoGapsInRowsAndNoOverlaps) {
  arguments_.a = view_of(numbers_, {24, 8, 2});
  EXPECT_FALSE(is_taken());
  arguments_.a = view_of(numbers_, {12, 0, 1});
  EXPECT_FALSE(is_taken());
  arguments_.a = view_of(numbers_, {12, 3, 1});
  EXPECT_FALSE(is_taken());
}

TEST_F(TakenByLibraries, OnlyFloat32) {
  arguments_.b.element = Element::float64;
  EXPECT_FALSE(is_taken());
}

TEST_F(TakenByLibraries, NothingThatIsEmpty) {
  arguments_.k = 0;
  EXPECT_FALSE(is_taken());
}

TEST_F(TakenByLibraries, BatchesOfOneRightMatrixAreOneProduct) {
  arguments_.b.strides[0] = 0;
  const auto one = library_product(arguments_, true);
  ASSERT_TRUE(one);
  EXPECT_EQ(to_string(one->product.shape), "6×4·4×5");
  arguments_.a.strides[0] = 16;
  const auto two = library_product(arguments_, true);
  ASSERT_TRUE(two);
  EXPECT_EQ(to_string(two->product.shape), "2 of 3×4·4×5");
}

TEST_F(TakenByLibraries, AddsToWhatLiesAsAMatrix) {
  arguments_.adds = true;
  arguments_.addend = view_of(numbers_ + 192, {15, 5, 1});
  const auto matrix = library_product(arguments_, true);
  ASSERT_TRUE(matrix);
  EXPECT_FALSE(matrix->copies_addend);
  EXPECT_EQ(matrix->product.addend, reinterpret_cast<std::byte*>(numbers_ + 192));
}

// Of batches, or scaled, it is copied to each row of the result, to which the product is added.
TEST_F(TakenByLibraries, AddsABiasToTheRowsOfOneProduct) {
  arguments_.adds = true;
  arguments_.addend = view_of(numbers_ + 192, {0, 0, 1});
  const auto batches = library_product(arguments_, true);
  ASSERT_TRUE(batches);
  EXPECT_TRUE(batches->copies_addend);
  EXPECT_EQ(batches->product.addend, batches->product.result);
  EXPECT_EQ(batches->product.shape.addend, batches->product.shape.result);
  arguments_.b.strides[0] = 0;
  const auto one = library_product(arguments_, true);
  ASSERT_TRUE(one);
  EXPECT_FALSE(one->copies_addend);
  EXPECT_FALSE(one->product.shape.adds);
  EXPECT_EQ(one->product.shape.bias, 16);
  EXPECT_EQ(one->product.bias, reinterpret_cast<std::byte*>(numbers_ + 192));
  EXPECT_TRUE(library_product(arguments_, false)->copies_addend);
  arguments_.beta = 2;
  EXPECT_TRUE(library_product(arguments_, true)->copies_addend);
}

}  // namespace
}  // namespace meshwright::cuda
