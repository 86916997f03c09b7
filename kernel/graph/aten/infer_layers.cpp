// Norms, losses, attention.
#include <algorithm>

#include "infer.h"

namespace meshwright::aten {

namespace {

Status check_vector(const Call& call, std::string_view name, const Shape& wanted) {
  if (!call.has(name) || call.shape(name) == wanted) return Done{};
  return bad_input("its '" + std::string(name) + "' is of " + text(call.shape(name)) + ", and must be of " +
                   text(wanted));
}

// Over the trailing dimensions that "normalized_shape" names. What native_layer_norm keeps has 1 in their place.
Result<Shapes> layer_norm(const Call& call) {
  const Shape &input = call.shape("input"), normalized = call.list("normalized_shape");
  if (normalized.empty() || normalized.size() > input.size() ||
      !std::equal(normalized.rbegin(), normalized.rend(), input.rbegin())) {
    return bad_input("its normalized_shape " + text(normalized) + " is not how its input of " + text(input) + " ends");
  }
  for (const char* name : {"weight", "bias"}) {
    if (Status status = check_vector(call, name, normalized); !status) return status.error();
  }
  Shape kept(input.begin(), input.end() - static_cast<std::ptrdiff_t>(normalized.size()));
  kept.resize(input.size(), 1);
  Shapes made = {input, kept, kept};
  made.resize(call.results());
  return made;
}

// One number for each channel, which is dimension 1.
Result<Shapes> channel_norm(const Call& call) {
  const Shape& input = call.shape("input");
  if (input.size() < 2) return bad_input("its input must have two dimensions at least");
  for (const char* name : {"weight", "bias", "running_mean", "running_var"}) {
    if (Status status = check_vector(call, name, {input[1]}); !status) return status.error();
  }
  return Shapes{input};
}

// With the mean and the deviation that it keeps: of evaluation nothing; and the running ones.
Result<Shapes> batch_norm(const Call& call) {
  Result<Shapes> made = channel_norm(call);
  if (!made) return made;
  const Shape channels = {call.shape("input")[1]};
  for (std::size_t i = 1; i < call.results(); ++i) {
    const bool nothing = call.result(i).shape == Shape{0} && i < 3;
    made->push_back(nothing ? Shape{0} : channels);
  }
  return made;
}

Result<Shapes> group_norm(const Call& call) {
  const Shape& input = call.shape("input");
  const std::int64_t groups = call.integer(call.op() == "aten.group_norm" ? "num_groups" : "group", 0);
  if (input.size() < 2 || groups < 1 || input[1] % groups != 0)
    return bad_input("its groups do not divide the channels of " + text(input));
  for (const char* name : {"weight", "bias"}) {
    if (Status status = check_vector(call, name, {input[1]}); !status) return status.error();
  }
  if (call.op() == "aten.group_norm") return Shapes{input};
  const std::int64_t space = elements(Shape(input.begin() + 2, input.end()));
  if (call.integer("N", input[0]) != input[0] || call.integer("C", input[1]) != input[1] ||
      call.integer("HxW", space) != space) {
    return bad_input("its N, C and HxW are not those of " + text(input));
  }
  return Shapes{input, {input[0], groups}, {input[0], groups}};
}

Result<Shapes> weight_norm(const Call& call) {
  const Shape &v = call.shape("v"), &g = call.shape("g");
  const Result<Shape> both = broadcast(v, g);
  if (!both || *both != v) return bad_input("its length of " + text(g) + " does not fit its direction of " + text(v));
  return Shapes{v};
}

Result<Shapes> reduced(const Call& call, Shape whole) {
  const std::int64_t reduction = call.integer("reduction", 1);
  if (reduction < 0 || reduction > 2)
    return bad_input("its reduction is " + std::to_string(reduction) + ", none of 0, 1, 2");
  return Shapes{reduction == 0 ? std::move(whole) : Shape{}};
}

Result<Shapes> elementwise_loss(const Call& call) {
  Shape shape;
  for (std::size_t i = 0; i < call.operands(); ++i) {
    Result<Shape> wider = broadcast(shape, call.operand(i).shape);
    if (!wider) return wider.error();
    shape = std::move(*wider);
  }
  return reduced(call, shape);
}

// Scores [n, c, ...] or [c], labels without c; or labels that are probabilities.
Result<Shapes> class_loss(const Call& call) {
  const Shape &scores = call.shape("self"), &labels = call.shape("target");
  if (scores.empty()) return bad_input("its scores have no classes");
  const std::size_t at = scores.size() > 1 ? 1 : 0;
  if (Status status = check_vector(call, "weight", {scores[at]}); !status) return status.error();
  Shape wanted = scores;
  wanted.erase(wanted.begin() + static_cast<std::ptrdiff_t>(at));
  const bool probabilities =
      labels == scores && is_floating(call.type("target").dtype) && call.op() == "aten.cross_entropy_loss";
  if (labels != wanted && !probabilities)
    return bad_input("its labels of " + text(labels) + " do not fit its scores of " + text(scores));
  if (is_floating(call.type("target").dtype) != probabilities) return bad_input("its labels are no whole numbers");
  return reduced(call, wanted);
}

Result<Shapes> attention(const Call& call) {
  const Shape &query = call.shape("query"), &key = call.shape("key"), &value = call.shape("value");
  const auto problem = [&] {
    return bad_input("its query of " + text(query) + ", key of " + text(key) + " and value of " + text(value) +
                     " do not go together");
  };
  if (query.size() < 2 || key.size() < 2 || value.size() < 2 || query.back() != key.back() ||
      key[key.size() - 2] != value[value.size() - 2])
    return problem();
  Shape batch(query.begin(), query.end() - 2), keys(key.begin(), key.end() - 2), values(value.begin(), value.end() - 2);
  if (call.truth("enable_gqa")) {  // several heads of the query share one of the key
    if (batch.empty() || keys.empty() || values.empty() || batch.back() % keys.back() != 0 ||
        batch.back() % values.back() != 0)
      return problem();
    keys.back() = values.back() = batch.back();
  }
  Result<Shape> both = broadcast(batch, keys);
  if (both) both = broadcast(*both, values);
  if (!both) return problem();
  if (call.has("attn_mask")) {
    Shape scores = *both;
    scores.insert(scores.end(), {query[query.size() - 2], key[key.size() - 2]});
    const Result<Shape> masked = broadcast(scores, call.shape("attn_mask"));
    if (!masked || *masked != scores)
      return bad_input("its attn_mask of " + text(call.shape("attn_mask")) + " does not fit scores of " + text(scores));
  }
  Shape made = *both;
  made.insert(made.end(), {query[query.size() - 2], value.back()});
  return Shapes{made};
}

}  // namespace

Table layer_table() {
  return {
      {"layer_norm native_layer_norm rms_norm", layer_norm},
      {"batch_norm instance_norm", channel_norm},
      {"_native_batch_norm_legit _native_batch_norm_legit.no_stats _native_batch_norm_legit_functional "
       "_native_batch_norm_legit_no_training",
       batch_norm},
      {"group_norm native_group_norm", group_norm},
      {"_weight_norm", weight_norm},
      {"binary_cross_entropy binary_cross_entropy_with_logits huber_loss kl_div l1_loss mse_loss smooth_l1_loss "
       "soft_margin_loss",
       elementwise_loss},
      {"cross_entropy_loss nll_loss nll_loss2d nll_loss_nd", class_loss},
      {"scaled_dot_product_attention", attention},
  };
}

}  // namespace meshwright::aten
