// More of what kernels_test.cpp compares: what scatters and reduces, bags of embeddings, distances, grids that are
// sampled, losses of which something is wanted of all classes.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernel_cases.h"

namespace meshwright::cuda {

// Ops that have kernels, besides kOps.
inline constexpr std::string_view kMoreOps[] = {"aten.scatter_reduce.two",
                                                "aten._embedding_bag",
                                                "aten.embedding_bag.padding_idx",
                                                "meshwright.embedding_bag_backward",
                                                "aten.cdist",
                                                "aten._cdist_forward",
                                                "aten._cdist_backward",
                                                "aten._pdist_forward",
                                                "aten._pdist_backward",
                                                "aten.cosine_similarity",
                                                "aten.grid_sampler",
                                                "aten.grid_sampler_2d",
                                                "meshwright.grid_sampler_backward_input",
                                                "meshwright.grid_sampler_backward_grid",
                                                "aten.native_layer_norm",
                                                "aten.native_layer_norm_backward"};

inline std::vector<LocalCase> more_local_cases() {
  std::vector<LocalCase> cases;
  const auto drawn = [](const char* name, std::vector<std::int64_t> shape) {
    return LocalCase::Drawn{name, floats(std::move(shape)), -1};
  };
  // What scatters and reduces: an index for each element, in short lines and in long ones, and a list, whose strides
  // are 0 along the columns. Not all of the table's places are named.
  for (const char* reduce : {"sum", "mean", "prod", "amax", "amin"}) {
    for (const bool include_self : {true, false}) {
      for (const std::int64_t count : {6, 140}) {
        const LocalCase::Drawn index{"index", {DType::int64, {2, count}}, 5},
            line{"index", {DType::int64, {1, count}}, 5};
        const Attributes scatters{
            {"dim", std::int64_t{1}}, {"reduce", std::string(reduce)}, {"include_self", include_self}};
        const LocalCase::Drawn values{"src", floats({2, count + 1})};
        cases.push_back({"aten.scatter_reduce.two", scatters, {drawn("self", {3, 6}), index, values}, floats({3, 6})});
        cases.push_back({"aten.scatter_reduce.two", scatters, {drawn("self", {3, 6}), line, values}, floats({3, 6})});
      }
    }
  }
  // Bags, one of which is empty, and one has padding alone; the last offset is the end, or another bag begins there.
  for (const std::int64_t mode : {0, 1, 2}) {
    for (const bool has_end : {false, true}) {
      for (const bool is_weighted : {false, true}) {
        const std::int64_t bags = has_end ? 4 : 5;
        const Attributes attributes{{"mode", mode}, {"padding_idx", std::int64_t{2}}, {"include_last_offset", has_end}};
        const TensorType made = floats({bags, 3}), numbers{DType::int64, {bags}}, rows{DType::int64, {bags, 3}};
        std::vector<LocalCase::Drawn> operands{drawn("weight", {6, 3}),
                                               {"indices", {DType::int64, {9}}, 0, {5, 1, 2, 5, 2, 2, 0, 5, 2}},
                                               {"offsets", {DType::int64, {5}}, 0, {0, 4, 4, 6, has_end ? 9.0 : 8.0}}};
        if (is_weighted) operands.push_back(drawn("per_sample_weights", {9}));
        cases.push_back({"aten._embedding_bag",
                         attributes,
                         operands,
                         made,
                         {{DType::int64, {9}}, numbers, mode == 2 ? rows : numbers}});
        operands[0] = drawn("grad_output", made.shape);
        if (mode == 2) operands.push_back({"max_indices", rows, 6});
        cases.push_back({"meshwright.embedding_bag_backward", attributes, operands, floats({6, 3})});
      }
    }
  }
  // Distances of rows that are short and long, of each order, and of rows that are the same.
  for (const double p : {0.0, 0.5, 1.0, 2.0, 3.0, static_cast<double>(INFINITY)}) {
    for (const std::int64_t extent : {5, 40}) {
      const Attributes order{{"p", p}};
      const LocalCase::Drawn x1 = drawn("x1", {2, 4, extent}), x2 = drawn("x2", {2, 3, extent}),
                             self = drawn("self", {5, extent});
      cases.push_back({"aten._cdist_forward", order, {x1, x2}, floats({2, 4, 3})});
      cases.push_back({"aten._pdist_forward", order, {self}, floats({10})});
      cases.push_back({"aten._cdist_backward",
                       order,
                       {drawn("grad_output", {2, 4, 3}), x1, x2, {"cdist", floats({2, 4, 3})}},
                       x1.type});
      cases.push_back(
          {"aten._pdist_backward", order, {drawn("grad_output", {10}), self, {"pdist", floats({10})}}, self.type});
    }
    cases.push_back({"aten._cdist_backward",
                     {{"p", p}},
                     {drawn("grad_output", {1, 1}),
                      {"x1", floats({1, 3}), 0, {1, 3, 2}},
                      {"x2", floats({1, 3}), 0, {1, 1, 3}},
                      {"cdist", floats({1, 1}), 0, {2}}},
                     floats({1, 3})});
    cases.push_back({"aten._cdist_backward",
                     {{"p", p}},
                     {drawn("grad_output", {1, 1}),
                      {"x1", floats({1, 3})},
                      {"x2", floats({1, 3})},
                      {"cdist", floats({1, 1}), 0, {0}}},
                     floats({1, 3})});
  }
  // Of vectors along a dimension in the middle, one of which is zeros.
  cases.push_back({"aten.cosine_similarity",
                   {{"dim", std::int64_t{1}}},
                   {drawn("x1", {2, 40, 3}), drawn("x2", {1, 40, 3})},
                   floats({2, 3})});
  cases.push_back({"aten.cosine_similarity",
                   {{"dim", std::int64_t{0}}, {"eps", 0.5}},
                   {drawn("x1", {3}), {"x2", floats({3}), 0, {0, 0, 0}}},
                   floats({})});
  // Places inside of an image and around it, in each way; an image of one pixel.
  for (const std::int64_t interpolation : {0, 1}) {
    for (const std::int64_t padding : {0, 1, 2}) {
      for (const bool align : {false, true}) {
        for (const std::int64_t size : {1, 3}) {
          const Attributes attributes{
              {"interpolation_mode", interpolation}, {"padding_mode", padding}, {"align_corners", align}};
          const LocalCase::Drawn read = drawn("input", {2, 2, size, size + 1}),
                                 given = drawn("grad_output", {2, 2, 2, 3});
          LocalCase::Drawn grid = drawn("grid", {2, 2, 3, 2});
          for (int i = 0; i < 24; ++i) grid.given.push_back(i * 7 % 24 * 0.3125 - 3.71875);
          cases.push_back({"aten.grid_sampler", attributes, {read, grid}, given.type});
          cases.push_back({"meshwright.grid_sampler_backward_input", attributes, {given, grid}, read.type});
          cases.push_back({"meshwright.grid_sampler_backward_grid", attributes, {given, read, grid}, grid.type});
        }
      }
    }
  }
  // Of labels that are smoothed, with classes that weigh differently and a label that is ignored.
  for (const std::int64_t reduction : {0, 1, 2}) {
    const Attributes smooth{{"label_smoothing", 0.25}, {"ignore_index", std::int64_t{2}}, {"reduction", reduction}};
    const LocalCase::Drawn logits = drawn("self", {14, 7}), weight{"weight", floats({7})},
                           target{"target", {DType::int64, {14}}, 7};
    const std::vector<std::int64_t> loss = reduction == 0 ? std::vector<std::int64_t>{14} : std::vector<std::int64_t>{};
    cases.push_back({"aten.cross_entropy_loss", smooth, {logits, target, weight}, floats(loss)});
    cases.push_back({"meshwright.cross_entropy_backward",
                     smooth,
                     {{"grad_output", floats(loss), -1}, logits, target, weight},
                     floats({14, 7})});
  }
  // Of probabilities in the place of labels: more classes than a warp has lanes.
  for (const std::int64_t reduction : {0, 1, 2}) {
    const Attributes smooth{{"label_smoothing", 0.25}, {"reduction", reduction}};
    const LocalCase::Drawn logits = drawn("self", {5, 70}), wanted{"target", floats({5, 70})},
                           weight{"weight", floats({70})};
    const std::vector<std::int64_t> loss = reduction == 0 ? std::vector<std::int64_t>{5} : std::vector<std::int64_t>{};
    cases.push_back({"aten.cross_entropy_loss", smooth, {logits, wanted, weight}, floats(loss)});
    cases.push_back({"meshwright.cross_entropy_backward",
                     smooth,
                     {{"grad_output", floats(loss), -1}, logits, wanted, weight},
                     floats({5, 70})});
  }
  return cases;
}

}  // namespace meshwright::cuda
