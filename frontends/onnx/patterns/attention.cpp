#include <algorithm>
#include <cmath>

#include "patterns.h"
#include "reader.h"

namespace meshwright::onnx {

namespace {

constexpr double kHidden = -1e4;  // what is added to a score to hide it: -inf, the lowest float, -10000

bool is_product(const Node& node) { return node.op == "aten.matmul" || node.op == "aten.bmm"; }

// One attention, read from its last product upwards. What has to be rewritten on the way (a mask's sense, a key's
// order) is remembered and done only when everything fits.
class Attention {
 public:
  Attention(const Reader& read, const Content& content) : read_(read), content_(content) {}

  [[nodiscard]] bool match(const Node& last) {
    if (!is_product(last)) return false;
    value_ = last.operands[1].value;
    const ValueId probabilities = without_copies(last.operands[0].value);
    const Node* softmax = read_.maker(repaired(probabilities));
    if (softmax == nullptr || softmax->op != "aten.softmax.int") return false;
    const std::int64_t rank = type(softmax->results[0]).rank(), dim = softmax->integer("dim", 0);
    if ((dim != -1 && dim != rank - 1) || rank < 3) return false;
    return match_scores(softmax->operands[0].value) && fits(last);
  }

  void rewrite(Node& last) {
    for (const auto& edit : edits_) edit();
    std::vector<Operand> operands = {{"query", query_}, {"key", key_}, {"value", value_}};
    std::map<std::string, Attribute, std::less<>> attributes = {{"scale", rounded_scale()}};
    if (mask_ != kNoId && is_causal())
      attributes["is_causal"] = true;
    else if (mask_ != kNoId)
      operands.push_back({"attn_mask", mask_});
    become(last, "aten.scaled_dot_product_attention", std::move(operands), std::move(attributes));
  }

 private:
  [[nodiscard]] const TensorType& type(ValueId value) const { return read_.graph().type(value); }

  [[nodiscard]] ValueId without_copies(ValueId value) const {
    const Node* node = read_.maker(value);
    while (node != nullptr && (node->op == "aten.clone" || node->op == "aten.alias")) {
      value = node->operands[0].value;
      node = read_.maker(value);
    }
    return value;
  }

  // PyTorch's exporter puts 0 where a softmax over nothing but hidden positions is not a number; attention does so
  // itself.
  [[nodiscard]] ValueId repaired(ValueId value) const {
    const Node* where = read_.maker(value);
    if (where == nullptr || !where->op.starts_with("aten.where.")) return value;
    const Node* question = read_.maker(where->operands[0].value, "aten.isnan");
    return question == nullptr ? value : question->operands[0].value;
  }

  // The scores may be masked several times, and scaled, in any order.
  [[nodiscard]] bool match_scores(ValueId scores) {
    scores = without_copies(scores);
    Node* node = read_.maker(scores);
    if (node == nullptr) return false;
    if (is_product(*node)) return match_factors(*node);
    if (!read_.users().is_alone(scores)) return false;
    const auto number = Reader::number(*node);
    if ((node->op == "aten.mul.Tensor" || node->op == "aten.div.Tensor") && number) {
      if (mask_ != kNoId) return false;  // would scale what is added below it
      scale_ *= node->op == "aten.mul.Tensor" ? *number : 1 / *number;
      scaled_below_mask_ = true;
      return match_scores(node->operands[0].value);
    }
    if (node->op == "aten.add.Tensor" && node->operands.size() == 2) return match_added(*node);
    if (node->op.starts_with("aten.where.")) return match_overwritten(*node);
    return false;
  }

  [[nodiscard]] bool match_added(const Node& add) {
    if (mask_ != kNoId || scaled_below_mask_) return false;
    for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
      const ValueId scores = without_copies(add.operands[i].value);
      const Node* below = read_.maker(scores);
      const bool computed =
          below != nullptr && (is_product(*below) || below->op == "aten.mul.Tensor" || below->op == "aten.div.Tensor");
      if (!computed || type(scores).shape != type(add.results[0]).shape) continue;
      mask_ = boolean_of(add.operands[1 - i].value);
      return match_scaled(scores);
    }
    return false;
  }

  // where(mask, scores, -inf), or with the sense of the mask turned round.
  [[nodiscard]] bool match_overwritten(Node& where) {
    if (mask_ != kNoId || scaled_below_mask_) return false;
    const auto condition = where.operand_index("condition"), self = where.operand_index("self"),
               other = where.operand_index("other");
    if (!condition) return false;
    const auto hidden = [&](const char* name, const auto& operand) {
      const auto number = operand ? constant(where.operands[*operand].value) : Reader::number(where, name);
      return number && *number <= kHidden;
    };
    const ValueId seen = where.operands[*condition].value;
    if (self && hidden("other", other)) {
      mask_ = seen;
      return match_scaled(where.operands[*self].value);
    }
    if (!other || !hidden("self", self)) return false;
    // The node that overwrites becomes the one that turns the mask round: it stands between the mask and the attention.
    mask_ = where.results[0];
    turned_mask_ = type(seen);
    const TensorType turned = type(seen);
    edits_.push_back([&where, seen, turned, &graph = read_.graph()] {
      become(where, "aten.logical_not", {{"self", seen}}, {});
      graph.values[where.results[0]].type = turned;
    });
    return match_scaled(where.operands[*other].value);
  }

  [[nodiscard]] bool match_scaled(ValueId scores) {
    scores = without_copies(scores);
    const Node* node = read_.maker(scores);
    for (; node != nullptr && !is_product(*node); node = read_.maker(scores)) {
      const auto number = Reader::number(*node);
      if ((node->op != "aten.mul.Tensor" && node->op != "aten.div.Tensor") || !number ||
          !read_.users().is_alone(scores))
        return false;
      scale_ *= node->op == "aten.mul.Tensor" ? *number : 1 / *number;
      scores = without_copies(node->operands[0].value);
    }
    return node != nullptr && match_factors(*node);
  }

  [[nodiscard]] bool match_factors(const Node& product) {
    if (!read_.users().is_alone(product.results[0])) return false;
    query_ = unscaled(product.operands[0].value);
    return untransposed(unscaled(product.operands[1].value));
  }

  // The value before multiplications by numbers, which go into the scale.
  [[nodiscard]] ValueId unscaled(ValueId value) {
    const Node* node = read_.maker(value);
    while (node != nullptr && (node->op == "aten.mul.Tensor" || node->op == "aten.div.Tensor") &&
           Reader::number(*node)) {
      scale_ *= node->op == "aten.mul.Tensor" ? *Reader::number(*node) : 1 / *Reader::number(*node);
      value = node->operands[0].value;
      node = read_.maker(value);
    }
    return value;
  }

  // The keys [..., s, d] of which `turned` [..., d, s] was made.
  [[nodiscard]] bool untransposed(ValueId turned) {
    Node* node = read_.maker(turned);
    if (node == nullptr) return false;
    const std::int64_t rank = type(turned).rank();
    const auto from_front = [&](std::int64_t dim) { return dim < 0 ? dim + rank : dim; };
    if (node->op == "aten.transpose.int") {
      const std::int64_t a = from_front(node->integer("dim0", 0)), b = from_front(node->integer("dim1", 1));
      if (std::min(a, b) != rank - 2 || std::max(a, b) != rank - 1) return false;
      key_ = unscaled(node->operands[0].value);
      return true;
    }
    if (node->op == "aten.permute") {  // from where the heads were still behind the positions
      std::vector<std::int64_t> order = node->integers("dims");
      if (order.size() < 3 || !read_.users().is_alone(turned)) return false;
      std::swap(order[order.size() - 1], order[order.size() - 2]);
      TensorType keys = type(turned);
      std::swap(keys.shape[keys.shape.size() - 1], keys.shape[keys.shape.size() - 2]);
      key_ = turned;
      turned_key_ = keys;
      edits_.push_back([node, order, keys, &graph = read_.graph()] {
        node->attributes["dims"] = order;
        graph.values[node->results[0]].type = keys;
      });
      return true;
    }
    if (node->op != "aten.view") return false;  // all leading dimensions as one, turned, and apart again
    const Node* turn = read_.maker(without_copies(node->operands[0].value), "aten.transpose.int");
    Node* joined =
        turn == nullptr ? nullptr : read_.maker(without_copies(unscaled(turn->operands[0].value)), "aten.view");
    if (joined == nullptr || turn->integer("dim0", 0) + turn->integer("dim1", 0) != 3 ||
        type(turn->results[0]).rank() != 3)
      return false;
    TensorType keys = type(turned);
    std::swap(keys.shape[keys.shape.size() - 1], keys.shape[keys.shape.size() - 2]);
    key_ = without_copies(joined->operands[0].value);
    if (type(key_) == keys) return true;
    key_ = joined->results[0];  // as heads again
    turned_key_ = keys;
    edits_.push_back([joined, keys, &graph = read_.graph()] {
      joined->attributes["size"] = keys.shape;
      graph.values[joined->results[0]].type = keys;
    });
    return read_.users().is_alone(key_);
  }

  // Of a mask that is where(seen, 0, -inf): seen.
  [[nodiscard]] ValueId boolean_of(ValueId mask) const {
    const Node* where = read_.maker(mask, "aten.where.self");
    if (where == nullptr) return mask;
    const auto shown = constant(where->operands[1].value), hidden = constant(where->operands[2].value);
    return shown == 0.0 && hidden && *hidden <= kHidden ? where->operands[0].value : mask;
  }

  [[nodiscard]] std::optional<double> constant(ValueId value) const {
    if (const Node* full = read_.maker(value, "aten.full")) return Reader::number(*full, "fill_value");
    const Literal* literal = content_(value);
    return literal != nullptr && literal->size() == 1 ? std::optional(literal->number(0)) : std::nullopt;
  }

  [[nodiscard]] bool fits(const Node& last) const {
    const TensorType key = turned_key_.value_or(type(key_));
    const TensorType &query = type(query_), &value = type(value_), &result = type(last.results[0]);
    const std::int64_t rank = query.rank();
    if (rank < 3 || key.rank() != rank || value.rank() != rank || result.rank() != rank || !(scale_ > 0)) return false;
    const auto at = static_cast<std::size_t>(rank);
    for (std::size_t i = 0; i + 2 < at; ++i) {
      if (query.shape[i] != key.shape[i] || key.shape[i] != value.shape[i]) return false;
    }
    if (query.shape[at - 1] != key.shape[at - 1] || key.shape[at - 2] != value.shape[at - 2]) return false;
    if (mask_ == kNoId) return true;
    const TensorType mask = turned_mask_.value_or(type(mask_));
    if (mask.rank() > rank) return false;
    std::vector<std::int64_t> scores = query.shape;
    scores.back() = key.shape[at - 2];
    for (std::size_t i = 1; i <= mask.shape.size(); ++i) {
      const std::int64_t size = mask.shape[mask.shape.size() - i];
      if (size != 1 && size != scores[scores.size() - i]) return false;
    }
    return true;
  }

  // The scale that PyTorch takes by itself, where the two roots of it that a file holds give that again.
  [[nodiscard]] double rounded_scale() const {
    const double usual = 1 / std::sqrt(static_cast<double>(type(query_).shape.back()));
    return is_near(scale_, usual) ? usual : scale_;
  }

  // Whether the mask shows each query exactly the keys up to its own position.
  [[nodiscard]] bool is_causal() const {
    if (turned_mask_) return false;
    const Literal* mask = content_(mask_);
    const TensorType key = turned_key_.value_or(type(key_));
    const std::int64_t queries = type(query_).shape[type(query_).shape.size() - 2],
                       keys = key.shape[key.shape.size() - 2];
    if (mask == nullptr || mask->type.rank() < 2 || queries != keys || queries < 2) return false;
    const std::vector<std::int64_t>& shape = mask->type.shape;
    if (shape.back() != keys || shape[shape.size() - 2] != queries) return false;
    for (std::size_t i = 0; i < mask->size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const bool seen = at % keys <= at / keys % queries;
      const double element = mask->number(i);
      if (mask->is_real() ? (seen ? element != 0 : element > kHidden) : (element != 0) != seen) return false;
    }
    return true;
  }

  const Reader& read_;
  const Content& content_;
  ValueId query_ = kNoId, key_ = kNoId, value_ = kNoId, mask_ = kNoId;
  std::optional<TensorType> turned_key_, turned_mask_;  // types after the edits
  double scale_ = 1;
  bool scaled_below_mask_ = false;
  std::vector<std::function<void()>> edits_;
};

bool leads_to_product(const Reader& read, ValueId value, int steps) {
  return std::ranges::any_of(read.users().of(value), [&](const Use& use) {
    const Node& node = read.graph().nodes[use.node];
    return is_product(node) || (steps > 0 && !node.results.empty() && node.op != "aten.softmax.int" &&
                                leads_to_product(read, node.results[0], steps - 1));
  });
}

bool comes_from_product(const Reader& read, ValueId value, int steps) {
  const Node* node = read.maker(value);
  if (node == nullptr) return false;
  if (is_product(*node)) return true;
  return steps > 0 && std::ranges::any_of(node->operands, [&](const Operand& operand) {
           return comes_from_product(read, operand.value, steps - 1);
         });
}

}  // namespace

int recognise_attention(Graph& graph, const Content& content, std::vector<std::string>& left) {
  int found = 0;
  {
    const Reader read(graph);
    for (Node& node : graph.nodes) {
      Attention attention(read, content);
      if (!attention.match(node)) continue;
      attention.rewrite(node);
      ++found;
    }
  }
  const Reader read(graph);
  for (const Node& node : graph.nodes) {
    if (node.op != "aten.softmax.int") continue;
    if (leads_to_product(read, node.results[0], 4) && comes_from_product(read, node.operands[0].value, 4))
      left.push_back(node.name);
  }
  return found;
}

}  // namespace meshwright::onnx
