#include "op_forms.h"

#include <map>
#include <string>

namespace meshwright::torch {

namespace {

const std::map<std::string, const char*, std::less<>>& forms() {
  static const std::map<std::string, const char*, std::less<>> kForms = {
      {"aten.linear", "F.linear({input}, {weight}[, {bias}])"},
      {"aten.matmul", "{self} @ {other}"},
      {"aten.mm", "{self} @ {mat2}"},
      {"aten.bmm", "{self} @ {mat2}"},
      {"aten.addmm", "torch.addmm({self}, {mat1}, {mat2}[, beta={beta}][, alpha={alpha}])"},
      {"aten.add.Tensor", "{self} + {other}"},
      {"aten.add.Scalar", "{self} + {other}"},
      {"aten.sub.Tensor", "{self} - {other}"},
      {"aten.rsub.Scalar", "{other} - {self}"},
      {"aten.mul.Tensor", "{self} * {other}"},
      {"aten.mul.Scalar", "{self} * {other}"},
      {"aten.div.Tensor", "{self} / {other}"},
      {"aten.div.Scalar", "{self} / {other}"},
      {"aten.neg", "-{self}"},
      {"aten.pow.Tensor_Scalar", "{self}.pow({exponent})"},
      {"aten.exp", "{self}.exp()"},
      {"aten.sqrt", "{self}.sqrt()"},
      {"aten.rsqrt", "{self}.rsqrt()"},
      {"aten.tanh", "torch.tanh({self})"},
      {"aten.sigmoid", "torch.sigmoid({self})"},
      {"aten.cos", "{self}.cos()"},
      {"aten.sin", "{self}.sin()"},
      {"aten.eq.Scalar", "{self} == {other}"},
      {"aten.eq.Tensor", "{self} == {other}"},
      {"aten.ne.Scalar", "{self} != {other}"},
      {"aten.ne.Tensor", "{self} != {other}"},
      {"aten.lt.Scalar", "{self} < {other}"},
      {"aten.lt.Tensor", "{self} < {other}"},
      {"aten.le.Scalar", "{self} <= {other}"},
      {"aten.le.Tensor", "{self} <= {other}"},
      {"aten.gt.Scalar", "{self} > {other}"},
      {"aten.gt.Tensor", "{self} > {other}"},
      {"aten.ge.Scalar", "{self} >= {other}"},
      {"aten.ge.Tensor", "{self} >= {other}"},
      {"aten.bitwise_and.Tensor", "{self} & {other}"},
      {"aten.bitwise_or.Tensor", "{self} | {other}"},
      {"aten.__and__.Tensor", "{self} & {other}"},
      {"aten.__or__.Tensor", "{self} | {other}"},
      {"aten.bitwise_not", "~{self}"},
      {"aten.logical_not", "{self}.logical_not()"},
      {"aten.where.self", "torch.where({condition}, {self}, {other})"},
      {"aten.masked_fill.Scalar", "{self}.masked_fill({mask}, {value})"},
      {"aten.view", "{self}.reshape({size})"},
      {"aten.reshape", "{self}.reshape({shape})"},
      {"aten._unsafe_view", "{self}.reshape({size})"},
      {"aten.transpose.int", "{self}.transpose({dim0}, {dim1})"},
      {"aten.permute", "{self}.permute({dims})"},
      {"aten.t", "{self}.t()"},
      {"aten.unsqueeze", "{self}.unsqueeze({dim})"},
      {"aten.squeeze.dim", "{self}.squeeze({dim})"},
      {"aten.expand", "{self}.expand({size})"},
      {"aten.flatten.using_ints", "{self}.flatten({start_dim}[, {end_dim}])"},
      {"aten.select.int", "{self}.select({dim}, {index})"},
      {"aten.clone", "{self}.clone()"},
      {"aten.contiguous", "{self}.contiguous()"},
      {"aten.alias", "{self}"},
      {"aten.detach", "{self}.detach()"},
      {"aten.log", "{self}.log()"},
      {"aten.abs", "{self}.abs()"},
      {"aten.cat", "torch.cat({tensors}[, dim={dim}])"},
      {"aten.stack", "torch.stack({tensors}[, dim={dim}])"},
      {"aten.to.dtype", "{self}.to({dtype})"},
      {"aten._to_copy", "{self}.to({dtype})"},
      {"aten.mean", "{self}.mean()"},
      {"aten.mean.dim", "{self}.mean({dim}[, keepdim={keepdim}])"},
      {"aten.sum", "{self}.sum()"},
      {"aten.sum.dim_IntList", "{self}.sum({dim}[, keepdim={keepdim}])"},
      {"aten.relu", "F.relu({self})"},
      {"aten.gelu", "F.gelu({self}[, approximate={approximate}])"},
      {"aten.silu", "F.silu({self})"},
      {"aten.softmax.int", "F.softmax({self}, dim={dim}[, dtype={dtype}])"},
      {"aten.layer_norm", "F.layer_norm({input}, {normalized_shape}[, {weight}][, bias={bias}][, eps={eps}])"},
      {"aten.rms_norm", "F.rms_norm({input}, {normalized_shape}[, {weight}][, eps={eps}])"},
      {"aten.embedding", "F.embedding({indices}, {weight}[, padding_idx={padding_idx}])"},
      {"aten.scaled_dot_product_attention",
       "F.scaled_dot_product_attention({query}, {key}, {value}[, attn_mask={attn_mask}][, dropout_p={dropout_p}][, is_causal={is_causal}][, "
       "scale={scale}][, enable_gqa={enable_gqa}])"},
      {"aten.conv2d",
       "F.conv2d({input}, {weight}[, {bias}][, stride={stride}][, padding={padding}][, dilation={dilation}][, groups={groups}])"},
      {"aten.cross_entropy_loss",
       "F.cross_entropy({self}, {target}[, weight={weight}][, reduction={reduction}][, ignore_index={ignore_index}][, "
       "label_smoothing={label_smoothing}])"},
      {"aten.nll_loss_nd",
       "F.nll_loss({self}, {target}[, weight={weight}][, reduction={reduction}][, ignore_index={ignore_index}])"},
      {"aten.mse_loss", "F.mse_loss({self}, {target}[, reduction={reduction}])"},
      {"aten.zeros", "torch.zeros({size}[, dtype={dtype}], device=device())"},
      {"aten.ones", "torch.ones({size}[, dtype={dtype}], device=device())"},
      {"aten.full", "torch.full({size}, {fill_value}[, dtype={dtype}], device=device())"},
      {"aten.arange", "torch.arange({end}[, dtype={dtype}], device=device())"},
      {"aten.arange.start", "torch.arange({start}, {end}[, dtype={dtype}], device=device())"},
      {"aten.arange.start_step", "torch.arange({start}, {end}[, {step}][, dtype={dtype}], device=device())"},
  };
  return kForms;
}

}  // namespace

std::string_view form_of(std::string_view op) {
  const auto form = forms().find(op);
  return form == forms().end() ? "" : form->second;
}

}  // namespace meshwright::torch
