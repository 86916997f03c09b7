// What kernels_test.cpp compares: the ops that have kernels, and cases that no family has.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "meshwright/graph.h"
#include "meshwright/tensor_type.h"

namespace meshwright::cuda {

// Ops that have kernels.
inline constexpr std::string_view kOps[] = {"aten.mul.Tensor",
                                            "aten.mul.Scalar",
                                            "aten.div.Tensor",
                                            "aten.neg",
                                            "aten.clone",
                                            "aten._to_copy",
                                            "aten.exp",
                                            "aten.log",
                                            "aten.sqrt",
                                            "aten.rsqrt",
                                            "aten.reciprocal",
                                            "aten.abs",
                                            "aten.sin",
                                            "aten.cos",
                                            "aten.tanh",
                                            "aten.tanh_backward",
                                            "aten.sigmoid",
                                            "aten.sigmoid_backward",
                                            "aten.relu",
                                            "aten.silu",
                                            "aten.silu_backward",
                                            "aten.pow.Tensor_Tensor",
                                            "aten.pow.Tensor_Scalar",
                                            "aten.maximum",
                                            "aten.minimum",
                                            "aten.min.other",
                                            "aten.where.self",
                                            "aten.where.ScalarOther",
                                            "aten.where.Scalar",
                                            "aten.eq.Tensor",
                                            "aten.ne.Scalar",
                                            "aten.le.Tensor",
                                            "aten.__and__.Tensor",
                                            "aten.logical_not",
                                            "aten.add.Tensor",
                                            "aten.sub.Tensor",
                                            "aten.gelu",
                                            "aten.gelu_backward",
                                            "aten.threshold_backward",
                                            "aten.masked_fill.Scalar",
                                            "aten.mm",
                                            "aten.bmm",
                                            "aten.matmul",
                                            "aten.addmm",
                                            "aten.baddbmm",
                                            "aten.linear",
                                            "aten.sum",
                                            "aten.sum.dim_IntList",
                                            "aten.mean",
                                            "aten.mean.dim",
                                            "aten.cumsum",
                                            "aten.layer_norm",
                                            "aten.rms_norm",
                                            "meshwright.layer_norm_backward",
                                            "meshwright.rms_norm_backward",
                                            "aten.embedding",
                                            "aten.embedding_dense_backward",
                                            "aten.index.Tensor",
                                            "aten.gather",
                                            "aten.copy",
                                            "aten.slice_backward",
                                            "aten.slice_scatter",
                                            "aten.cat",
                                            "aten.pad",
                                            "aten.constant_pad_nd",
                                            "aten.diff",
                                            "aten.select_backward",
                                            "aten.select_scatter",
                                            "aten.conv1d",
                                            "aten.conv2d",
                                            "aten.conv3d",
                                            "aten.conv1d.padding",
                                            "aten.conv2d.padding",
                                            "aten.conv3d.padding",
                                            "aten.convolution",
                                            "aten.conv_transpose1d",
                                            "aten.conv_transpose2d.input",
                                            "aten.conv_transpose3d.input",
                                            "meshwright.convolution_backward_input",
                                            "meshwright.convolution_backward_weight",
                                            "aten.convolution_backward",
                                            "aten._native_batch_norm_legit_functional",
                                            "aten._native_batch_norm_legit_no_training",
                                            "aten._native_batch_norm_legit.no_stats",
                                            "aten._native_batch_norm_legit",
                                            "aten.batch_norm",
                                            "meshwright.batch_norm_backward_sums",
                                            "meshwright.batch_norm_backward_input",
                                            "meshwright.batch_norm_mean",
                                            "meshwright.batch_norm_variance",
                                            "meshwright.batch_norm_apply",
                                            "aten.max_pool1d",
                                            "aten.max_pool2d",
                                            "aten.max_pool3d",
                                            "aten.max_pool2d_with_indices",
                                            "aten.max_pool3d_with_indices",
                                            "aten.avg_pool1d",
                                            "aten.avg_pool2d",
                                            "aten.avg_pool3d",
                                            "aten.adaptive_max_pool1d",
                                            "aten.adaptive_max_pool2d",
                                            "aten.adaptive_max_pool3d",
                                            "aten.adaptive_avg_pool1d",
                                            "aten.adaptive_avg_pool2d",
                                            "aten.adaptive_avg_pool3d",
                                            "aten._adaptive_avg_pool2d",
                                            "aten._adaptive_avg_pool3d",
                                            "aten.avg_pool2d_backward",
                                            "aten._adaptive_avg_pool2d_backward",
                                            "aten.max_pool2d_with_indices_backward",
                                            "meshwright.max_pool_backward",
                                            "meshwright.avg_pool_backward",
                                            "aten.native_dropout",
                                            "aten.dropout",
                                            "aten.softmax.int",
                                            "aten._softmax",
                                            "aten.log_softmax.int",
                                            "aten._log_softmax",
                                            "aten._softmax_backward_data",
                                            "aten._log_softmax_backward_data",
                                            "aten.group_norm",
                                            "aten.native_group_norm",
                                            "aten.instance_norm",
                                            "meshwright.group_norm_backward",
                                            "aten.native_group_norm_backward",
                                            "aten.argmax",
                                            "aten.argmin",
                                            "aten.max.dim",
                                            "aten.min.dim",
                                            "aten.amin",
                                            "aten.max",
                                            "aten.min",
                                            "aten.topk",
                                            "aten.sort",
                                            "aten.sort.stable",
                                            "aten.argsort",
                                            "aten.argsort.stable",
                                            "aten.any",
                                            "aten.any.dim",
                                            "aten.any.dims",
                                            "aten.all",
                                            "aten.all.dim",
                                            "aten.all.dims",
                                            "aten.amax",
                                            "aten.scatter_add",
                                            "aten.index_add",
                                            "aten.index_copy",
                                            "aten.index_put",
                                            "meshwright.pad_backward",
                                            "aten.roll",
                                            "meshwright.experts",
                                            "meshwright.experts_backward",
                                            "aten.view",
                                            "aten.permute",
                                            "aten.transpose.int",
                                            "aten.t",
                                            "aten.expand",
                                            "aten.slice.Tensor",
                                            "aten.select.int",
                                            "aten.unsqueeze",
                                            "aten.split.Tensor",
                                            "aten.scaled_dot_product_attention",
                                            "meshwright.attention_backward",
                                            "aten.nll_loss_nd",
                                            "meshwright.nll_count",
                                            "meshwright.nll_backward",
                                            "aten.cross_entropy_loss",
                                            "meshwright.cross_entropy_backward",
                                            "meshwright.cross_entropy_maximum",
                                            "meshwright.cross_entropy_terms",
                                            "meshwright.cross_entropy_count",
                                            "meshwright.cross_entropy_combine",
                                            "aten.square",
                                            "aten.exp2",
                                            "aten.expm1",
                                            "aten.log2",
                                            "aten.log10",
                                            "aten.log1p",
                                            "aten.sign",
                                            "aten.tan",
                                            "aten.asin",
                                            "aten.acos",
                                            "aten.atan",
                                            "aten.sinh",
                                            "aten.cosh",
                                            "aten.asinh",
                                            "aten.acosh",
                                            "aten.atanh",
                                            "aten.erf",
                                            "aten.erfc",
                                            "aten.floor",
                                            "aten.ceil",
                                            "aten.trunc",
                                            "aten.round",
                                            "aten.frac",
                                            "aten.isnan",
                                            "aten.isinf",
                                            "aten.isfinite",
                                            "aten.signbit",
                                            "aten.floor_divide",
                                            "aten.fmod.Tensor",
                                            "aten.remainder.Tensor",
                                            "aten.fmax",
                                            "aten.fmin",
                                            "aten.hypot",
                                            "aten.logaddexp",
                                            "aten.xlogy.Tensor",
                                            "aten.masked_fill.Tensor",
                                            "aten.lerp.Tensor",
                                            "aten.lerp.Scalar",
                                            "aten._prelu_kernel",
                                            "aten.prelu",
                                            "aten.log_sigmoid",
                                            "aten.mish",
                                            "aten.mish_backward",
                                            "aten.hardsigmoid",
                                            "aten.hardsigmoid_backward",
                                            "aten.hardswish",
                                            "aten.hardswish_backward",
                                            "aten.logical_and",
                                            "aten.logical_or",
                                            "aten.logical_xor",
                                            "aten.bitwise_xor.Tensor",
                                            "aten.bitwise_not",
                                            "aten.rsub.Scalar",
                                            "aten.addcmul",
                                            "aten.addcdiv",
                                            "aten.div.Tensor_mode",
                                            "aten.pow.Scalar",
                                            "aten.clamp",
                                            "aten.clamp.Tensor",
                                            "aten.clamp_min",
                                            "aten.clamp_max",
                                            "aten.threshold",
                                            "aten.logit",
                                            "aten.nan_to_num",
                                            "aten.round.decimals",
                                            "aten.elu",
                                            "aten.selu",
                                            "aten.celu",
                                            "aten.elu_backward",
                                            "aten.relu6",
                                            "aten.hardtanh",
                                            "aten.hardtanh_backward",
                                            "aten.leaky_relu",
                                            "aten.leaky_relu_backward",
                                            "aten.softplus",
                                            "aten.softplus_backward",
                                            "aten.mse_loss",
                                            "aten.l1_loss",
                                            "aten.smooth_l1_loss",
                                            "aten.huber_loss",
                                            "aten.binary_cross_entropy",
                                            "aten.binary_cross_entropy_with_logits",
                                            "aten.kl_div",
                                            "aten.soft_margin_loss",
                                            "aten.stack",
                                            "aten.hstack",
                                            "aten.vstack",
                                            "aten.column_stack",
                                            "aten.repeat",
                                            "aten.tile",
                                            "aten.flip",
                                            "aten.tril",
                                            "aten.triu",
                                            "aten.index_select",
                                            "aten.scatter.src",
                                            "aten.scatter.value",
                                            "aten.var.correction",
                                            "aten.std.correction",
                                            "aten.std_mean.correction",
                                            "aten.logsumexp",
                                            "aten.linalg_vector_norm",
                                            "aten.linalg_norm",
                                            "aten._weight_norm",
                                            "aten.prod",
                                            "aten.prod.dim_int",
                                            "meshwright.prod_backward",
                                            "aten.bernoulli",
                                            "aten.bernoulli.p",
                                            "aten.rand_like",
                                            "aten.randn_like",
                                            "aten.uniform",
                                            "aten.normal_functional",
                                            "aten.exponential",
                                            "aten.upsample_nearest2d.vec",
                                            "aten.upsample_bilinear2d.vec",
                                            "aten.upsample_bicubic2d",
                                            "meshwright.upsample_backward",
                                            "aten.repeat_interleave.self_int",
                                            "aten.glu",
                                            "aten.glu_backward",
                                            "aten.mv",
                                            "aten.dot",
                                            "aten.outer",
                                            "aten.einsum",
                                            "aten.meshgrid",
                                            "aten.one_hot",
                                            "aten.diagonal",
                                            "aten.diagonal_backward",
                                            "aten.pixel_shuffle",
                                            "aten.pixel_unshuffle",
                                            "aten.broadcast_tensors",
                                            "meshwright.recurrent",
                                            "meshwright.recurrent_backward",
                                            "aten.unfold",
                                            "aten.unfold_backward",
                                            "aten.im2col",
                                            "aten.col2im",
                                            "aten.masked_scatter",
                                            "meshwright.masked_scatter_backward",
                                            "aten.pad",
                                            "aten.reflection_pad2d",
                                            "aten.replication_pad2d",
                                            "meshwright.cross_entropy_combine_backward"};

// What ranks execute in the place of an op, which no family's own cases hold.
struct LocalCase {
  struct Drawn {
    const char* name;
    TensorType type;
    static constexpr int kMasked = -2;
    int below = 0;  // integers count up to it, again and again; floating point is between 0.5 and 1.5, or, below 0, of
                    // both signs; kMasked: each third one is -INFINITY
    std::vector<double> given = {};  // in their place
  };
  const char* op;
  Attributes attributes;
  std::vector<Drawn> operands;
  TensorType result;
  std::vector<TensorType> more_results = {};
};

inline TensorType floats(std::vector<std::int64_t> shape) { return {DType::float32, std::move(shape)}; }

// A shard of `name`: `extent` positions from `start` on, of `size`.
inline Attributes shard(const std::string& name, std::int64_t size, std::int64_t extent, std::int64_t start,
                        Attributes others = {}) {
  others[name + "_atoms"] = std::vector<std::int64_t>{size};
  others[name + "_extents"] = std::vector<std::int64_t>{extent};
  others[name + "_starts"] = std::vector<std::int64_t>{start};
  return others;
}

inline std::vector<LocalCase> local_cases() {
  const TensorType labels{DType::int64, {14}};
  std::vector<LocalCase> cases;
  for (const std::int64_t start : {0, 4, 8}) {  // the last shard has rows, or classes, that pad
    cases.push_back({"aten.embedding",
                     shard("rows", 10, 4, start),
                     {{"weight", floats({4, 3})}, {"indices", {DType::int64, {2, 5}}, 10}},
                     floats({2, 5, 3})});
    cases.push_back({"aten.embedding_dense_backward",
                     shard("rows", 10, 4, start, {{"num_weights", std::int64_t{4}}}),
                     {{"grad_output", floats({4, 5, 3}), -1}, {"indices", {DType::int64, {4, 5}}, 10}},
                     floats({4, 3})});
  }
  for (const std::int64_t own : {4, 16}) {  // elements of a row, or pieces of 16 bytes and what is left
    for (const std::int64_t start : {std::int64_t{0}, own}) {
      const int all = static_cast<int>(own * 7 / 4);
      const Attributes classes = shard("classes", all, own, start, {{"ignore_index", std::int64_t{2}}});
      const LocalCase::Drawn logits{"self", floats({14, own}), -1}, target{"target", labels, all},
          maximum{"maximum", floats({14})};
      cases.push_back({"meshwright.cross_entropy_maximum", classes, {logits}, floats({14})});
      cases.push_back({"meshwright.cross_entropy_terms", classes, {logits, target, maximum}, floats({3, 14})});
      cases.push_back(
          {"meshwright.cross_entropy_combine_backward",
           classes,
           {{"grad_output", floats({})}, logits, target, maximum, {"terms", floats({3, 14})}, {"count", floats({})}},
           floats({14, own})});
    }
  }
  for (const int classes : {7, 24}) {
    const LocalCase::Drawn masked{"self", floats({14, classes}), LocalCase::Drawn::kMasked},
        target{"target", labels, classes};
    cases.push_back({"aten.cross_entropy_loss", {{"reduction", std::int64_t{0}}}, {masked, target}, floats({14})});
    cases.push_back({"meshwright.cross_entropy_backward",
                     {},
                     {{"grad_output", floats({})}, masked, target},
                     floats({14, classes})});
  }
  cases.push_back({"meshwright.cross_entropy_count", {}, {{"terms", floats({3, 6})}}, floats({})});
  cases.push_back(
      {"meshwright.cross_entropy_combine", {}, {{"terms", floats({3, 6})}, {"count", floats({})}}, floats({})});
  cases.push_back(
      {"meshwright.cross_entropy_combine", {{"reduction", std::int64_t{0}}}, {{"terms", floats({3, 6})}}, floats({6})});
  cases.push_back({"aten.pad",
                   {{"pad", std::vector<std::int64_t>{-1, 2, 1, 0}}, {"mode", std::string("constant")}, {"value", 7.0}},
                   {{"self", floats({2, 3})}},
                   floats({3, 4})});
  // Products of float32, which a library computes: broadcast batches and addends.
  const auto drawn = [](const char* name, std::vector<std::int64_t> shape) {
    return LocalCase::Drawn{name, floats(std::move(shape)), -1};
  };
  const Attributes scaled{{"alpha", 0.5}, {"beta", 2.0}};
  cases.push_back({"aten.mm", {}, {drawn("self", {3, 4}), drawn("mat2", {4, 5})}, floats({3, 5})});
  cases.push_back({"aten.bmm", {}, {drawn("self", {2, 3, 4}), drawn("mat2", {2, 4, 5})}, floats({2, 3, 5})});
  for (const auto& [a, b, result] :
       std::vector<std::array<std::vector<std::int64_t>, 3>>{{{{4}, {4, 5}, {5}}},
                                                             {{{3, 4}, {4}, {3}}},
                                                             {{{2, 3, 4}, {4, 5}, {2, 3, 5}}},
                                                             {{{2, 3, 4, 5}, {2, 3, 5, 6}, {2, 3, 4, 6}}},
                                                             {{{2, 3, 4, 5}, {3, 5, 6}, {2, 3, 4, 6}}}})
    cases.push_back({"aten.matmul", {}, {drawn("self", a), drawn("other", b)}, floats(result)});
  for (const std::vector<std::int64_t>& addend :
       std::vector<std::vector<std::int64_t>>{{5}, {1}, {3, 1}, {1, 5}, {3, 5}})
    cases.push_back(
        {"aten.addmm", scaled, {drawn("self", addend), drawn("mat1", {3, 4}), drawn("mat2", {4, 5})}, floats({3, 5})});
  for (const std::vector<std::int64_t>& addend :
       std::vector<std::vector<std::int64_t>>{{1, 3, 5}, {2, 3, 5}, {2, 1, 5}})
    cases.push_back({"aten.baddbmm",
                     scaled,
                     {drawn("self", addend), drawn("batch1", {2, 3, 4}), drawn("batch2", {2, 4, 5})},
                     floats({2, 3, 5})});
  for (const std::vector<std::int64_t>& input : std::vector<std::vector<std::int64_t>>{{4}, {3, 4}, {2, 3, 4}}) {
    std::vector<std::int64_t> result = input;
    result.back() = 5;
    cases.push_back({"aten.linear", {}, {drawn("input", input), drawn("weight", {5, 4})}, floats(result)});
    cases.push_back(
        {"aten.linear", {}, {drawn("input", input), drawn("weight", {5, 4}), drawn("bias", {5})}, floats(result)});
  }
  // Shards of batches: sums of what is here, over the elements that all ranks have.
  const Attributes counted{{"count", std::int64_t{36}}, {"training", true}, {"momentum", 0.25}, {"eps", 1e-3}};
  const LocalCase::Drawn image = drawn("input", {2, 3, 2, 3}), mean = drawn("mean", {3});
  cases.push_back({"meshwright.batch_norm_mean", counted, {image}, floats({3})});
  cases.push_back({"meshwright.batch_norm_variance", counted, {image, mean}, floats({3})});
  cases.push_back({"meshwright.batch_norm_apply",
                   counted,
                   {image, drawn("weight", {3}), drawn("bias", {3}), mean, {"variance", floats({3})}},
                   floats({2, 3, 2, 3})});
  cases.push_back({"aten.scaled_dot_product_attention",
                   shard("queries", 8, 4, 4, {{"is_causal", true}}),
                   {{"query", floats({2, 4, 3}), -1}, {"key", floats({2, 8, 3}), -1}, {"value", floats({2, 8, 5}), -1}},
                   floats({2, 4, 5})});
  // Dropout goes by the elements of all scores, of which these are the second half of two batches'.
  Attributes dropped{{"dropout_p", 0.25}, {"seed", std::int64_t{3}}};
  dropped["rows_atoms"] = std::vector<std::int64_t>{2, 8};
  dropped["rows_extents"] = std::vector<std::int64_t>{2, 4};
  dropped["rows_starts"] = std::vector<std::int64_t>{0, 4};
  const std::vector<LocalCase::Drawn> dropping{
      {"query", floats({2, 4, 3}), -1}, {"key", floats({2, 8, 3}), -1}, {"value", floats({2, 8, 5}), -1}};
  cases.push_back({"aten.scaled_dot_product_attention", dropped, dropping, floats({2, 4, 5})});
  // With a mask, as a library that has attention takes it in half precision.
  for (const auto& [mask, keys] : std::vector<std::array<std::vector<std::int64_t>, 2>>{{{{2, 1, 1, 6}, {2, 4, 6, 8}}},
                                                                                        {{{4, 3, 6}, {2, 2, 6, 8}}}}) {
    const LocalCase::Drawn query = drawn("query", {2, 4, 3, 8}), key = drawn("key", keys), value = drawn("value", keys);
    for (const DType dtype : {DType::boolean, DType::float32}) {
      const LocalCase::Drawn hidden{
          "attn_mask", {dtype, mask}, dtype == DType::boolean ? 2 : LocalCase::Drawn::kMasked};
      const Attributes causal{{"is_causal", true}, {"output_mask", std::vector<std::int64_t>{0, 1, 0, 0}}};
      cases.push_back({"aten.scaled_dot_product_attention", causal, {query, key, value, hidden}, query.type});
      cases.push_back(
          {"meshwright.attention_backward",
           causal,
           {drawn("grad_output", query.type.shape), drawn("output", query.type.shape), query, key, value, hidden},
           key.type});
    }
  }
  return cases;
}

}  // namespace meshwright::cuda
