// Cross entropy, whole and in the steps that it is cut into where classes or positions are sharded.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

#include "kernels/losses.h"
#include "op_writer.h"

namespace meshwright::cuda {

namespace {

class LossWriter {
 public:
  explicit LossWriter(OpWriter& writer) : writer_(writer) {
    arguments_.ignored = writer.call.node.integer("ignore_index", -100);
    arguments_.reduction = static_cast<LossReduction>(writer.call.node.integer("reduction", 1));
  }

  // Takes what the call has of these.
  Status begin() {
    arguments_.smoothing = writer_.call.node.number("label_smoothing", 0);
    const std::string& op = writer_.call.node.op;
    if (arguments_.smoothing != 0 && op != "aten.cross_entropy_loss" && op != "meshwright.cross_entropy_backward")
      return bad_input("cuda has no kernel for smoothed labels in " + op);
    const std::pair<const char*, View*> named[] = {{"self", &arguments_.logits},         {"target", &arguments_.labels},
                                                   {"maximum", &arguments_.maximum},     {"terms", &arguments_.terms},
                                                   {"count", &arguments_.count},         {"weight", &arguments_.weight},
                                                   {"grad_output", &arguments_.gradient}};
    const Seen *logits = writer_.operand("self"), *labels = writer_.operand("target");
    arguments_.has_probabilities = labels != nullptr && is_floating(labels->type.dtype);
    for (const auto& each : named) {
      const bool has_classes =
          each.second == &arguments_.logits || (each.second == &arguments_.labels && arguments_.has_probabilities);
      const Seen* given = has_classes ? writer_.operand(each.first) : nullptr;
      const bool is_turned = given != nullptr && given->type.rank() > 2;
      const bool is_sum = each.second == &arguments_.terms || each.second == &arguments_.count;
      if (Status status =
              is_turned ? take_turned(*given, *each.second) : writer_.view_in_rows({&each, 1}, is_sum ? sums_ : reads_);
          !status)
        return status;
    }
    arguments_.has_count = writer_.operand("count") != nullptr;
    arguments_.has_weight = writer_.operand("weight") != nullptr;
    if (const Seen* terms = writer_.operand("terms")) arguments_.positions = terms->type.elements() / 3;
    if (logits == nullptr) return Done{};
    const std::vector<std::int64_t>& shape = logits->type.shape;
    if (shape.empty()) return bad_input("cuda has no kernel for " + op + " of a number");
    arguments_.classes = shape[shape.size() > 1 ? 1 : 0];
    arguments_.positions = arguments_.classes == 0 ? shape[0] : logits->type.elements() / arguments_.classes;
    const Result<Shard> shard = shard_of(writer_.call.node, "classes", arguments_.classes);
    if (!shard) return shard.error();
    arguments_.shard = *shard;
    return Done{};
  }

  // One step, whose result is the call's first.
  Status write(KernelId kernel, View LossArguments::*made, std::int64_t count) {
    const Seen& result = writer_.results[0];
    if (kernel == KernelId::loss_gradient && result.type.rank() > 2) return write_turned(result);
    if (Status status = set(result, arguments_.*made); !status) return status;
    launch(kernel, count, {result.range()});
    return Done{};
  }

  // As the ranks would do it that have all positions and classes, in doubles, as the whole op keeps them. What it sums
  // up is read by those behind it; the forward keeps it beside the logits, where the backward finds it.
  void write_until_count() {
    const std::int64_t positions = arguments_.positions;
    const bool has_wanted = arguments_.smoothing != 0 || arguments_.has_probabilities,
               has_count = arguments_.reduction == LossReduction::mean;
    const std::size_t bytes =
        static_cast<std::size_t>(positions * (has_wanted ? 6 : 4) + (has_count ? 1 : 0)) * sizeof(double);
    const std::string sums = sums_of_what();
    std::byte* place = sums.empty() ? nullptr : writer_.kept("self", sums);
    const bool is_kept = place != nullptr;
    if (!is_kept && !sums.empty() && arguments_.gradient.data == nullptr) place = writer_.keep("self", sums, bytes);
    if (place == nullptr) place = writer_.scratch(bytes);
    const auto take = [&](std::int64_t numbers, View& view) {
      view.data = place;
      view.element = Element::float64;
      const Range taken{place, static_cast<std::size_t>(numbers) * sizeof(double)};
      place += taken.bytes;
      return taken;
    };
    const auto find = [&](KernelId kernel, std::int64_t count, const std::vector<Range>& ranges) {
      if (!is_kept) launch(kernel, count, ranges);
    };
    const Range maximum = take(positions, arguments_.maximum), terms = take(3 * positions, arguments_.terms);
    arguments_.finds_maximum = true;
    find(KernelId::loss_terms, positions, {maximum, terms});
    reads_.push_back(maximum);
    sums_.push_back(terms);
    if (has_wanted) {
      const Range wanted = take(2 * positions, arguments_.wanted);
      find(KernelId::loss_wanted, positions, {wanted});
      sums_.push_back(wanted);
    }
    if (!has_count) return;
    const Range count = take(1, arguments_.count);
    find(KernelId::loss_count, 1, {count});
    sums_.push_back(count);
    arguments_.has_count = true;
  }

  [[nodiscard]] std::int64_t positions() const { return arguments_.positions; }
  [[nodiscard]] std::int64_t results() const {
    return arguments_.reduction == LossReduction::none ? arguments_.positions : 1;
  }

 private:
  void launch(KernelId kernel, std::int64_t count, std::vector<Range> writes) {
    std::vector<Range> reads = sums_;
    if (kernel != KernelId::loss_count && kernel != KernelId::loss_combine)
      reads.insert(reads.end(), reads_.begin(), reads_.end());
    LossArguments arguments = arguments_;
    if (kernel == KernelId::loss_terms) arguments.fault = writer_.fault(reads, writes);
    writer_.launch(kernel, arguments, count, std::move(reads), std::move(writes));
  }

  // The same elements with their classes innermost: a row for each position.
  static Seen classes_last(const Seen& tensor) {
    Seen turned = tensor;
    std::rotate(turned.type.shape.begin() + 1, turned.type.shape.begin() + 2, turned.type.shape.end());
    std::rotate(turned.strides.begin() + 1, turned.strides.begin() + 2, turned.strides.end());
    return turned;
  }

  Status take_turned(const Seen& tensor, View& view) {
    const Result<Seen> rows = writer_.in_rows(classes_last(tensor));
    if (!rows) return rows.error();
    reads_.push_back(rows->range());
    return set(*rows, view);
  }

  Status write_turned(const Seen& result) {
    const Seen turned = classes_last(result);
    const Seen rows = writer_.in_scratch(turned.type);
    if (Status status = set(rows, arguments_.result); !status) return status;
    launch(KernelId::loss_gradient, arguments_.positions, {rows.range()});
    return writer_.copy(rows, turned);
  }

  // All that they depend on besides the logits. Empty: nobody knows it.
  [[nodiscard]] std::string sums_of_what() const {
    if (writer_.keeper == nullptr) return {};
    std::string made = "sums of a loss that ignores " + std::to_string(arguments_.ignored) + ", reduction " +
                       std::to_string(static_cast<int>(arguments_.reduction)) + ", smoothed by " +
                       std::to_string(std::bit_cast<std::int64_t>(arguments_.smoothing));
    for (const char* name : {"target", "weight"}) {
      const auto operand = writer_.call.node.operand_index(name);
      if (!operand) continue;
      const std::string identity = writer_.keeper->identity(*operand);
      if (identity.empty()) return {};
      made.append("; ").append(name).append(" ").append(identity);
    }
    return made;
  }

  static Status set(const Seen& tensor, View& view) {
    const Result<View> made = view_for(tensor, {});
    if (!made) return made.error();
    view = *made;
    return Done{};
  }

  OpWriter& writer_;
  LossArguments arguments_;
  std::vector<Range> reads_,
      sums_;  // the latter: of what there is by position, and of all: terms, what is wanted, count
};

Status write_loss(OpWriter& writer) {
  LossWriter loss(writer);
  if (Status status = loss.begin(); !status) return status;
  const std::string& op = writer.call.node.op;
  if (op == "meshwright.cross_entropy_maximum")
    return loss.write(KernelId::loss_maximum, &LossArguments::maximum, loss.positions());
  if (op == "meshwright.cross_entropy_terms")
    return loss.write(KernelId::loss_terms, &LossArguments::terms, loss.positions());
  if (op == "meshwright.cross_entropy_count") return loss.write(KernelId::loss_count, &LossArguments::count, 1);
  if (op == "meshwright.cross_entropy_combine")
    return loss.write(KernelId::loss_combine, &LossArguments::result, loss.results());
  if (op == "meshwright.cross_entropy_combine_backward")
    return loss.write(KernelId::loss_gradient, &LossArguments::result, loss.positions());
  loss.write_until_count();
  if (op == "aten.cross_entropy_loss")
    return loss.write(KernelId::loss_combine, &LossArguments::result, loss.results());
  return loss.write(KernelId::loss_gradient, &LossArguments::result, loss.positions());
}

constexpr std::string_view kLosses[] = {"aten.cross_entropy_loss",
                                        "meshwright.cross_entropy_backward",
                                        "meshwright.cross_entropy_maximum",
                                        "meshwright.cross_entropy_terms",
                                        "meshwright.cross_entropy_count",
                                        "meshwright.cross_entropy_combine",
                                        "meshwright.cross_entropy_combine_backward"};

}  // namespace

WriteOp loss_op(std::string_view op) {
  return std::ranges::find(kLosses, op) != std::end(kLosses) ? write_loss : nullptr;
}

}  // namespace meshwright::cuda
