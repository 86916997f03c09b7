// The text form of rules (rule.h): the parser and the printer.
#include <algorithm>
#include <cctype>
#include <map>

#include "meshwright/rule.h"

namespace meshwright {

namespace {

// One dimension as written: "!d", "(p q)", "1", "b*".
struct DimensionText {
  struct Piece {
    std::string name;
    bool whole = false, pads = false, internal = false;
  };
  std::vector<Piece> pieces;  // none for "1"
  bool repeats = false;       // "b*"
};

struct TensorText {
  std::vector<DimensionText> dimensions;
  bool addend = false, own = false;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  // A list of tensors up to `end`, which is taken too; "" is the end of the text.
  bool take_tensors(std::string_view end, std::vector<TensorText>& tensors) {
    TensorText tensor;
    bool any = false;
    while (true) {
      skip_spaces();
      const bool finished = end.empty() ? at_ == text_.size() : text_.substr(at_, end.size()) == end;
      if (finished) {
        at_ += end.size();
        if (any || !tensors.empty()) tensors.push_back(std::move(tensor));
        return true;
      }
      if (at_ == text_.size()) return false;
      any = true;
      if (text_[at_] == ',') {
        ++at_;
        tensors.push_back(std::move(tensor));
        tensor = {};
      } else if (text_[at_] == '+') {
        ++at_;
        tensor.addend = true;
      } else if (text_[at_] == '@') {
        ++at_;
        tensor.own = true;
      } else if (!take_dimension(tensor)) {
        return false;
      }
    }
  }

  [[nodiscard]] std::size_t position() const { return at_; }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }

  bool take_dimension(TensorText& tensor) {
    DimensionText dimension;
    if (text_[at_] == '(') {
      ++at_;
      for (skip_spaces(); at_ < text_.size() && text_[at_] != ')'; skip_spaces()) {
        if (!take_piece(dimension)) return false;
      }
      if (at_ == text_.size()) return false;
      ++at_;
    } else if (!take_piece(dimension)) {
      return false;
    }
    if (at_ < text_.size() && text_[at_] == '*') {
      ++at_;
      dimension.repeats = true;
    }
    tensor.dimensions.push_back(std::move(dimension));
    return true;
  }

  bool take_piece(DimensionText& dimension) {
    DimensionText::Piece piece;
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '!') piece.whole = true;
      else if (text_[at_] == '~') piece.pads = true;
      else if (text_[at_] == '^') piece.internal = true;
      else break;
    }
    while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) {
      piece.name += text_[at_++];
    }
    if (piece.name.empty()) return false;
    if (piece.name != "1" || piece.whole) dimension.pieces.push_back(std::move(piece));
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// Gives factors their ids and sizes.
class Binder {
 public:
  explicit Binder(Rule& rule) : rule_(rule) {}

  Status bind(const TensorText& text, const TensorType& type, TensorRule& tensor) {
    tensor.addend = text.addend;
    tensor.own = text.own;
    const auto written = static_cast<std::int64_t>(text.dimensions.size());
    const auto repeats = std::any_of(text.dimensions.begin(), text.dimensions.end(), [](const auto& d) { return d.repeats; });
    const std::int64_t extra = type.rank() - written;
    if (repeats ? extra < -1 : extra != 0) return internal_error("the rule has another rank than " + to_string(type));
    std::size_t at = 0;
    for (const DimensionText& dimension : text.dimensions) {
      const std::int64_t times = dimension.repeats ? extra + 1 : 1;
      for (std::int64_t i = 0; i < times; ++i, ++at) {
        const std::string suffix = dimension.repeats ? std::to_string(times - 1 - i) : "";
        Status status = bind_dimension(dimension, suffix, type.shape[at], tensor);
        if (!status) return status;
      }
    }
    return Done{};
  }

 private:
  Status bind_dimension(const DimensionText& text, const std::string& suffix, std::int64_t size, TensorRule& tensor) {
    std::vector<FactorId> ids;
    // In a product at most one factor may still be without a size: it takes what is left.
    std::int64_t known = 1;
    FactorId open = 0;
    int unknown = 0;
    for (const auto& piece : text.pieces) {
      const FactorId id = intern(piece, suffix);
      ids.push_back(id);
      if (rule_.factors[id].size > 0) known *= rule_.factors[id].size;
      else open = id, ++unknown;
    }
    if (unknown > 1) return internal_error("the sizes of a product of factors cannot be told apart");
    if (unknown == 1) {
      if (known == 0 || size % known != 0) return internal_error("a product of factors does not divide its dimension");
      rule_.factors[open].size = size / known;
    } else if (known != size) {
      return internal_error("factor '" + (ids.empty() ? std::string("1") : rule_.factors[ids.back()].name) +
                            "' has two sizes, " + std::to_string(known) + " and " + std::to_string(size));
    }
    tensor.dimensions.push_back(std::move(ids));
    return Done{};
  }

  FactorId intern(const DimensionText::Piece& piece, const std::string& suffix) {
    const std::string name = piece.name + suffix;
    auto [found, inserted] = ids_.try_emplace(name, static_cast<FactorId>(rule_.factors.size()));
    if (inserted) {
      Factor factor;
      factor.name = name;
      // A number is a factor of that size.
      const bool number = std::all_of(piece.name.begin(), piece.name.end(), [](unsigned char c) { return std::isdigit(c); });
      factor.size = number ? std::stoll(piece.name) : 0;
      rule_.factors.push_back(std::move(factor));
    }
    Factor& factor = rule_.factors[found->second];
    factor.whole |= piece.whole;
    factor.pads |= piece.pads;
    factor.internal |= piece.internal;
    return found->second;
  }

  Rule& rule_;
  std::map<std::string, FactorId> ids_;
};

std::string dimension_text(const Rule& rule, const std::vector<FactorId>& factors) {
  if (factors.empty()) return "1";
  std::string text;
  for (const FactorId id : factors) {
    const Factor& factor = rule.factors[id];
    if (!text.empty()) text += ' ';
    if (factor.whole) text += '!';
    if (factor.internal) text += '^';
    if (factor.pads) text += '~';
    text += factor.name;
  }
  return factors.size() > 1 ? "(" + text + ")" : text;
}

std::string tensors_text(const Rule& rule, const std::vector<TensorRule>& tensors) {
  std::string text;
  for (const TensorRule& tensor : tensors) {
    if (&tensor != &tensors.front()) text += ", ";
    if (tensor.addend) text += '+';
    if (tensor.own) text += '@';
    for (std::size_t i = 0; i < tensor.dimensions.size(); ++i) {
      text += (i > 0 ? " " : "") + dimension_text(rule, tensor.dimensions[i]);
    }
  }
  return text;
}

}  // namespace

Result<Rule> parse_rule(std::string_view text, const std::vector<TensorType>& operands,
                        const std::vector<TensorType>& results) {
  const std::string where = "rule '" + std::string(text) + "'";
  Parser parser(text);
  std::vector<TensorText> operand_texts, result_texts;
  if (!parser.take_tensors("->", operand_texts) || !parser.take_tensors("", result_texts)) {
    return internal_error(where + ": cannot be read at position " + std::to_string(parser.position()));
  }
  // A side without text is one scalar if there is one tensor.
  if (operand_texts.empty() && operands.size() == 1) operand_texts.emplace_back();
  if (result_texts.empty() && results.size() == 1) result_texts.emplace_back();
  if (operand_texts.size() != operands.size() || result_texts.size() != results.size()) {
    return internal_error(where + ": is for " + std::to_string(operand_texts.size()) + " operands and " +
                          std::to_string(result_texts.size()) + " results, but the call has " +
                          std::to_string(operands.size()) + " and " + std::to_string(results.size()));
  }
  Rule rule;
  rule.operands.resize(operands.size());
  rule.results.resize(results.size());
  Binder binder(rule);
  const auto bind_all = [&]() -> Status {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (Status status = binder.bind(operand_texts[i], operands[i], rule.operands[i]); !status) return status;
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (Status status = binder.bind(result_texts[i], results[i], rule.results[i]); !status) return status;
    }
    return Done{};
  };
  if (Status status = bind_all(); !status) return add_context(where, status.error());
  return rule;
}

std::string to_string(const Rule& rule) {
  return tensors_text(rule, rule.operands) + " -> " + tensors_text(rule, rule.results);
}

}  // namespace meshwright
