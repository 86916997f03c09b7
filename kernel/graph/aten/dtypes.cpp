// Which dtypes a call may have: enough that no tensor is read as another kind of number than it is.
#include <algorithm>

#include "call.h"

namespace meshwright::aten {

namespace {

bool is_one_of(const std::string& op, std::string_view names) {
  const std::string_view name = std::string_view(op).substr(sizeof("aten.") - 1);
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t end = std::min(names.find(' ', at), names.size());
    if (names.substr(at, end - at) == name) return true;
    at = end + 1;
  }
  return false;
}

// Whose results are what their operands are: moved, repeated, joined.
constexpr std::string_view kKeep =
    "view reshape _unsafe_view unsqueeze squeeze squeeze.dim squeeze.dims transpose.int t permute expand "
    "flatten.using_ints "
    "unflatten.int repeat tile repeat_interleave.self_int diagonal unfold alias detach clone split.Tensor "
    "split_with_sizes chunk "
    "unbind.int slice.Tensor select.int flip roll tril triu index.Tensor gather index_select copy slice_scatter "
    "select_scatter "
    "scatter.src scatter.value scatter_add index_add index_copy index_put constant_pad_nd pad reflection_pad1d "
    "reflection_pad2d "
    "reflection_pad3d replication_pad1d replication_pad2d replication_pad3d pixel_shuffle pixel_unshuffle im2col "
    "col2im dropout "
    "amax amin relu neg zero fill.Scalar fill.Tensor broadcast_tensors";

// Whose tensors are all of one dtype, the first result too.
constexpr std::string_view kAlike =
    "linear mm bmm addmm baddbmm matmul dot mv outer conv1d conv1d.padding conv2d conv2d.padding conv3d conv3d.padding "
    "convolution conv_transpose1d conv_transpose2d.input conv_transpose3d.input cat stack concat hstack vstack "
    "column_stack "
    "cdist _cdist_forward";

constexpr std::string_view kPredicates =
    "eq.Scalar eq.Tensor ge.Scalar ge.Tensor greater.Scalar greater.Tensor greater_equal.Scalar greater_equal.Tensor "
    "gt.Scalar "
    "gt.Tensor isfinite isinf isnan le.Scalar le.Tensor less.Scalar less.Tensor less_equal.Scalar less_equal.Tensor "
    "logical_and "
    "logical_not logical_or logical_xor lt.Scalar lt.Tensor ne.Scalar ne.Tensor not_equal.Scalar not_equal.Tensor "
    "signbit";

// That need floating point, and give it.
constexpr std::string_view kFloating =
    "layer_norm native_layer_norm rms_norm batch_norm instance_norm _native_batch_norm_legit "
    "_native_batch_norm_legit.no_stats "
    "_native_batch_norm_legit_functional _native_batch_norm_legit_no_training group_norm native_group_norm "
    "_weight_norm "
    "scaled_dot_product_attention _softmax _log_softmax native_dropout gelu silu grid_sampler grid_sampler_2d glu "
    "avg_pool1d "
    "avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d "
    "adaptive_avg_pool3d";

bool is_index(DType dtype) {
  return dtype == DType::int64 || dtype == DType::int32 || dtype == DType::int16 || dtype == DType::int8 ||
         dtype == DType::uint8;
}

Error refused(const Call& call, const TensorType& type) {
  return bad_input("'" + call.op().substr(sizeof("aten.") - 1) + "' neither takes nor gives " +
                   std::string(name(type.dtype)) + " here");
}

Status check_positions(const Call& call) {
  for (std::size_t i = 0; i < call.operands(); ++i) {
    const std::string& name = call.node().operands[i].name;
    const bool position = name == "index" || name == "offsets" || name == "indices" || name.starts_with("indices.");
    if (position && !is_index(call.operand(i).dtype) && call.operand(i).dtype != DType::boolean) {
      return bad_input("its '" + name + "' is " + std::string(meshwright::name(call.operand(i).dtype)) +
                       ", and positions are whole numbers");
    }
  }
  return Done{};
}

}  // namespace

Status check_dtypes(const Call& call) {
  if (Status status = check_positions(call); !status) return status;
  const std::string& op = call.op();
  if (is_one_of(op, kPredicates) && call.result(0).dtype != DType::boolean) return refused(call, call.result(0));
  if (call.operands() == 0) return Done{};
  const DType first = call.operand(0).dtype;
  if (is_one_of(op, kKeep)) {
    for (std::size_t i = 0; i < call.results(); ++i) {
      if (call.result(i).dtype != first) return refused(call, call.result(i));
    }
  }
  if (is_one_of(op, kAlike)) {
    for (std::size_t i = 0; i < call.operands(); ++i) {
      if (call.operand(i).dtype != first) return refused(call, call.operand(i));
    }
    if (call.result(0).dtype != first) return refused(call, call.result(0));
  }
  if (is_one_of(op, kFloating)) {
    if (!is_floating(first)) return refused(call, call.operand(0));
    for (std::size_t i = 0; i < call.operands(); ++i) {
      if (is_complex(call.operand(i).dtype)) return refused(call, call.operand(i));
    }
    if (!is_floating(call.result(0).dtype)) return refused(call, call.result(0));
  }
  // Complex numbers come of complex ones alone.
  const bool complex = [&] {
    for (std::size_t i = 0; i < call.operands(); ++i) {
      if (is_complex(call.operand(i).dtype)) return true;
    }
    return call.says("dtype");
  }();
  for (std::size_t i = 0; !complex && i < call.results(); ++i) {
    if (is_complex(call.result(i).dtype)) return refused(call, call.result(i));
  }
  return Done{};
}

}  // namespace meshwright::aten
