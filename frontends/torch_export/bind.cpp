#include "bind.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <limits>

#include "meshwright/log.h"

namespace meshwright::torch_export {

namespace {

using Sizes = std::map<std::string, std::int64_t>;
using Number = std::optional<std::int64_t>;

Number checked(char operation, Number a, Number b) {
  if (!a || !b) return std::nullopt;
  std::int64_t result = 0;
  switch (operation) {
    case '+':
      return __builtin_add_overflow(*a, *b, &result) ? Number() : Number(result);
    case '-':
      return __builtin_sub_overflow(*a, *b, &result) ? Number() : Number(result);
    case '*':
      return __builtin_mul_overflow(*a, *b, &result) ? Number() : Number(result);
    default:
      break;
  }
  if (*b == 0 || (*a == std::numeric_limits<std::int64_t>::min() && *b == -1)) return std::nullopt;
  const std::int64_t quotient =
      *a / *b - ((*a % *b != 0 && (*a < 0) != (*b < 0)) ? 1 : 0);  // rounds down, as Python does
  return operation == '/' ? quotient : *a - quotient * *b;
}

Number power(Number base, Number exponent) {
  if (!base || !exponent || *exponent < 0 || *exponent > 62) return std::nullopt;
  Number result = 1;
  for (std::int64_t i = 0; i < *exponent; ++i) result = checked('*', result, base);
  return result;
}

// A recursive descent over calls, which recent versions write, and operators, which older ones do.
class Reader {
 public:
  Reader(std::string_view text, const Sizes& sizes) : text_(text), sizes_(sizes) {}

  Number run() {
    const Number value = sum();
    return rest().empty() ? value : std::nullopt;
  }

 private:
  std::string_view rest() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return text_.substr(at_);
  }
  bool take(std::string_view token) {
    if (!rest().starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  Number sum() {
    if (++depth_ > kMostDepth) return std::nullopt;
    Number value = product();
    while (value) {
      if (take("+"))
        value = checked('+', value, product());
      else if (take("-"))
        value = checked('-', value, product());
      else
        break;
    }
    --depth_;
    return value;
  }

  Number product() {
    Number value = factor();
    while (value) {
      if (rest().starts_with("**")) break;
      if (take("*"))
        value = checked('*', value, factor());
      else if (take("//"))
        value = checked('/', value, factor());
      else if (take("%"))
        value = checked('%', value, factor());
      else
        break;
    }
    return value;
  }

  Number factor() {
    if (take("-")) return checked('-', 0, factor());
    Number value = atom();
    if (value && take("**")) value = power(value, factor());
    return value;
  }

  Number atom() {
    if (take("(")) {
      const Number value = sum();
      return take(")") ? value : std::nullopt;
    }
    const std::string_view left = rest();
    std::size_t length = 0;
    while (length < left.size() && (std::isalnum(static_cast<unsigned char>(left[length])) || left[length] == '_'))
      ++length;
    if (length == 0) return std::nullopt;
    const std::string word(left.substr(0, length));
    at_ += length;
    if (std::isdigit(static_cast<unsigned char>(word[0]))) {
      if (word.size() > 18 || word.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
      return std::strtoll(word.c_str(), nullptr, 10);
    }
    if (take("(")) return call(word);
    const auto size = sizes_.find(word);
    return size == sizes_.end() ? Number() : Number(size->second);
  }

  Number call(const std::string& function) {
    std::vector<Number> arguments;
    do {
      arguments.push_back(sum());
      if (!arguments.back()) return std::nullopt;
    } while (take(","));
    if (!take(")")) return std::nullopt;
    const auto fold = [&](auto combine) {
      Number value = arguments[0];
      for (std::size_t i = 1; i < arguments.size(); ++i) value = combine(value, arguments[i]);
      return value;
    };
    if (function == "Integer" && arguments.size() == 1) return arguments[0];
    if (function == "Add") return fold([](Number a, Number b) { return checked('+', a, b); });
    if (function == "Mul") return fold([](Number a, Number b) { return checked('*', a, b); });
    if (function == "Max") return fold([](Number a, Number b) { return std::max(a, b); });
    if (function == "Min") return fold([](Number a, Number b) { return std::min(a, b); });
    if (arguments.size() != 2) return std::nullopt;
    if (function == "FloorDiv" || function == "CleanDiv") return checked('/', arguments[0], arguments[1]);
    if (function == "Mod" || function == "PythonMod") return checked('%', arguments[0], arguments[1]);
    if (function == "Pow") return power(arguments[0], arguments[1]);
    return std::nullopt;
  }

  static constexpr int kMostDepth = 200;
  const std::string_view text_;
  const Sizes& sizes_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

bool is_symbol(const std::string& expression) {
  return !expression.empty() && std::isalpha(static_cast<unsigned char>(expression[0])) &&
         std::all_of(expression.begin(), expression.end(),
                     [](char letter) { return std::isalnum(static_cast<unsigned char>(letter)) || letter == '_'; });
}

class Binding {
 public:
  Binding(ExportedProgram& program, const OpenDimensions& open) : program_(program), open_(open) {}

  Status run() {
    find_dimensions();
    if (Status status = choose_sizes(); !status) return status;
    for (auto& [name, tensor] : program_.tensors) bind(tensor);
    for (ExportedNode& node : program_.nodes) {
      for (Argument& input : node.inputs) bind(input.value);
    }
    std::erase_if(program_.nodes, [&](const ExportedNode& node) { return computes_sizes(node); });
    return Done{};
  }

 private:
  // The open dimensions of the model's inputs, by their names.
  void find_dimensions() {
    for (const InputSpec& input : program_.inputs) {
      const auto tensor = program_.tensors.find(input.value);
      if (input.kind != InputSpec::Kind::user_input || tensor == program_.tensors.end()) continue;
      for (std::size_t d = 0; d < tensor->second.expressions.size(); ++d) {
        const std::string& symbol = tensor->second.expressions[d];
        if (!is_symbol(symbol)) continue;
        places_.try_emplace(symbol, "dimension " + std::to_string(d) + " of input '" + input.value + "'");
        if (d == 0 && batch_.empty()) batch_ = symbol;
      }
    }
  }

  Status choose_sizes() {
    for (const auto& [name, size] : open_.named) {
      if (!places_.contains(name)) return bad_input("no open dimension is called '" + name + "'" + known_names());
    }
    for (const auto& [symbol, place] : places_) {
      const auto named = open_.named.find(symbol);
      const auto exported = program_.hints.find(symbol);
      if (named != open_.named.end()) {
        sizes_[symbol] = named->second;
      } else if (symbol == batch_ && open_.batch) {
        sizes_[symbol] = *open_.batch;
      } else if (exported != program_.hints.end()) {
        sizes_[symbol] = exported->second;
        log(LogLevel::warning, "torch_export",
            place + " is open; it is taken as " + std::to_string(exported->second) +
                ", with which the model was exported; " + how_to_bind(symbol) + " for another size");
      } else {
        continue;
      }
      const auto range = program_.ranges.find(symbol);
      if (range == program_.ranges.end()) continue;
      const auto [least, most] = range->second;
      if (sizes_[symbol] >= least && sizes_[symbol] <= most) continue;
      return bad_input(place + " can't be " + std::to_string(sizes_[symbol]) + ": the export allows sizes from " +
                       std::to_string(least) + " to " + std::to_string(most));
    }
    return Done{};
  }

  std::string how_to_bind(const std::string& symbol) const {
    return symbol == batch_ ? "--set model.batch=N" : "--set model.dimensions=\"" + symbol + "=N\"";
  }

  std::string known_names() const {
    if (places_.empty()) return "; every dimension of the file's inputs has a fixed size";
    std::string text;
    for (const auto& [symbol, place] : places_)
      text += (text.empty() ? "; there are '" : ", '") + symbol + "' (" + place + ")";
    return text;
  }

  void bind(ExportedTensor& tensor) const {
    if (tensor.symbol.empty()) return;
    tensor.symbol.clear();
    for (std::size_t d = 0; d < tensor.expressions.size(); ++d) {
      if (tensor.expressions[d].empty()) continue;
      const Number size = evaluate(tensor.expressions[d], sizes_);
      if (size)
        tensor.shape[d] = *size;
      else if (tensor.symbol.empty())
        tensor.symbol = tensor.expressions[d];
    }
  }

  // A number, or the name of one.
  Number number_of(const std::string& text) const {
    const auto expression = program_.numbers.find(text);
    return evaluate(expression == program_.numbers.end() ? text : expression->second, sizes_);
  }

  void bind(ArgumentValue& value) const {
    const auto* symbolic = std::get_if<Symbolic>(&value);
    if (symbolic == nullptr) return;
    if (!symbolic->is_list) {
      if (const Number number = number_of(symbolic->elements[0])) value = Attribute(*number);
      return;
    }
    std::vector<std::int64_t> numbers;
    for (const std::string& element : symbolic->elements) {
      const Number number = number_of(element);
      if (!number) return;
      numbers.push_back(*number);
    }
    value = Attribute(std::move(numbers));
  }

  // A node whose results are all numbers that are known now, or checks of them.
  bool computes_sizes(const ExportedNode& node) const {
    if (node.outputs.empty()) return false;
    return std::all_of(node.outputs.begin(), node.outputs.end(), [&](const ArgumentValue& output) {
      const auto* symbolic = std::get_if<Symbolic>(&output);
      return symbolic && !symbolic->is_list && (symbolic->is_check || number_of(symbolic->elements[0]).has_value());
    });
  }

  ExportedProgram& program_;
  const OpenDimensions& open_;
  std::map<std::string, std::string> places_;  // by symbol: where it stands
  std::string batch_;                          // the symbol of the batch
  Sizes sizes_;
};

}  // namespace

std::optional<std::int64_t> evaluate(std::string_view expression, const std::map<std::string, std::int64_t>& sizes) {
  static constexpr std::size_t kLongest = 4096;  // of what exports write, the longest has some hundred letters
  return expression.size() > kLongest ? Number() : Reader(expression, sizes).run();
}

Status bind_dimensions(ExportedProgram& program, const OpenDimensions& open) { return Binding(program, open).run(); }

}  // namespace meshwright::torch_export
