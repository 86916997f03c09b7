#include "constants.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "fold.h"
#include "meshwright/log.h"

namespace meshwright::onnx {

namespace {

constexpr std::int64_t kLongestSetting = 16;     // elements of a list of scales or the like
constexpr std::int64_t kLargestTable = 1 << 16;  // elements of a real tensor that other constants are computed from

Tensor transposed(const Tensor& tensor) {
  const std::int64_t rows = tensor.shape()[0], columns = tensor.shape()[1];
  Tensor result(TensorType{tensor.type().dtype, {columns, rows}});
  const auto element = static_cast<std::size_t>(size_bytes(tensor.type().dtype));
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      std::memcpy(result.bytes().data() + static_cast<std::size_t>(column * rows + row) * element,
                  tensor.bytes().data() + static_cast<std::size_t>(row * columns + column) * element, element);
    }
  }
  return result;
}

// How the model's nodes use a tensor of two dimensions.
struct Uses {
  int as_right_factor = 0;  // MatMul's B
  int as_table = 0;         // what Gather picks rows from
  int others = 0;
};

class Finder {
 public:
  Finder(const Model& model, const StoredBytes& bytes) : model_(model), bytes_(bytes) {}

  Result<Constants> run() {
    for (const auto& [name, tensor] : model_.initializers) {
      found_.stored.emplace(name, tensor);
      if (Status status = keep_content(name, tensor, false); !status) return status.error();
    }
    for (const ModelNode& node : model_.nodes) {
      if (Status status = visit(node); !status) return status.error();
    }
    if (Status status = turn_weights(); !status) return status.error();
    return std::move(found_);
  }

 private:
  // A real tensor of several elements may be a parameter, so its content is nothing to compute with, unless an exporter
  // computed it; a mask or a list of positions is none.
  Status keep_content(const std::string& name, const StoredTensor& tensor, bool of_node) {
    const std::int64_t elements = tensor.type.elements();
    const bool may_be_trained =
        is_floating(tensor.type.dtype) && elements != 1 && !of_node && !(is_made_up(name) && elements <= kLargestTable);
    if (elements > kLargestLiteral || !bytes_.has(tensor) || (may_be_trained && elements > kLongestSetting))
      return Done{};
    if (tensor.type.dtype == DType::complex64 || tensor.type.dtype == DType::complex128) return Done{};
    Result<Tensor> content = bytes_.read(tensor);
    if (!content) return content.error();
    (may_be_trained ? found_.short_reals : found_.literals)[name] = literal_of(*content);
    return Done{};
  }

  Status visit(const ModelNode& node) {
    if (node.op == "Constant" && node.domain.empty() && node.outputs.size() == 1) return visit_constant(node);
    const bool shape = node.op == "Shape" && node.inputs.size() == 1;
    if (const auto stored = shape ? found_.stored.find(node.inputs[0]) : found_.stored.end();
        stored != found_.stored.end()) {
      found_.literals[node.outputs.at(0)] = shape_literal(node, stored->second.type.shape);
      return Done{};
    }
    std::vector<const Literal*> operands;
    for (const std::string& input : node.inputs) {
      const auto known = found_.literals.find(input);
      if (known == found_.literals.end() && !input.empty()) return Done{};
      operands.push_back(input.empty() ? nullptr : &known->second);
    }
    if (auto results = fold(node, operands)) {
      for (std::size_t i = 0; i < results->size(); ++i) found_.literals[node.outputs[i]] = std::move((*results)[i]);
    }
    return Done{};
  }

  Status visit_constant(const ModelNode& node) {
    const std::string& name = node.outputs[0];
    for (const auto& [key, value] : node.attributes) {
      Literal literal;
      if (const auto* tensor = std::get_if<StoredTensor>(&value)) {
        StoredTensor stored = *tensor;
        stored.name = name;
        found_.of_nodes.insert(name);
        if (Status status = keep_content(name, stored, true); !status) return status;
        found_.stored.emplace(name, std::move(stored));
      } else if (const auto* integer = std::get_if<std::int64_t>(&value)) {
        literal.type = {DType::int64, {}};
        literal.integers = {*integer};
        found_.literals[name] = literal;
      } else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&value)) {
        found_.literals[name] = list_literal(*integers);
      } else if (const auto* real = std::get_if<double>(&value)) {
        literal.type = {DType::float32, {}};
        literal.reals = {*real};
        found_.literals[name] = literal;
      } else if (const auto* reals = std::get_if<std::vector<double>>(&value)) {
        literal.type = {DType::float32, {static_cast<std::int64_t>(reals->size())}};
        literal.reals = *reals;
        found_.literals[name] = literal;
      }
    }
    return Done{};
  }

  Literal shape_literal(const ModelNode& node, const std::vector<std::int64_t>& shape) const {
    const auto number = [&](const char* key, std::int64_t otherwise) {
      const auto found = node.attributes.find(key);
      const auto* value = found == node.attributes.end() ? nullptr : std::get_if<std::int64_t>(&found->second);
      const std::int64_t rank = static_cast<std::int64_t>(shape.size()), at = value ? *value : otherwise;
      return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
    };
    const std::int64_t start = number("start", 0),
                       end = std::max(number("end", static_cast<std::int64_t>(shape.size())), start);
    return list_literal({shape.begin() + start, shape.begin() + end});
  }

  // PyTorch's linear layers have their weights as [n, k]; exporters turn them for MatMul. Turned back, they shard and
  // cost as what was exported, and a weight that is also an embedding's table is one parameter again.
  Status turn_weights() {
    std::map<std::string, Uses> uses;
    for (const ModelNode& node : model_.nodes) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const auto stored = found_.stored.find(node.inputs[i]);
        if (stored == found_.stored.end() || stored->second.type.rank() != 2 || !is_floating(stored->second.type.dtype))
          continue;
        if (node.op == "Shape") continue;
        Uses& of = uses[node.inputs[i]];
        if (node.op == "MatMul" && i == 1)
          ++of.as_right_factor;
        else if (node.op == "Gather" && i == 0)
          ++of.as_table;
        else
          ++of.others;
      }
    }
    for (const ModelValue& output : model_.outputs) {
      if (const auto found = uses.find(output.name); found != uses.end()) ++found->second.others;
    }
    for (const auto& [name, use] : uses) {
      if (use.as_right_factor == 0 || use.as_table + use.others > 0) continue;
      found_.turned.insert(name);
      Result<std::string> twin = find_twin(name, uses);
      if (!twin) return twin.error();
      if (!twin->empty()) found_.twins[name] = *twin;
    }
    return Done{};
  }

  // The table whose transpose `name` is, or "". Where there are no bytes to compare, only an unmistakable pair counts.
  Result<std::string> find_twin(const std::string& name, const std::map<std::string, Uses>& uses) {
    const StoredTensor& weight = found_.stored.at(name);
    const std::vector<std::int64_t> turned = {weight.type.shape[1], weight.type.shape[0]};
    std::vector<std::string> tables;
    for (const auto& [other, use] : uses) {
      const StoredTensor& table = found_.stored.at(other);
      if (use.as_table > 0 && table.type.shape == turned && table.type.dtype == weight.type.dtype)
        tables.push_back(other);
    }
    if (!bytes_.has(weight)) {
      const auto rivals = std::count_if(uses.begin(), uses.end(), [&](const auto& entry) {
        return entry.second.as_right_factor > 0 && found_.stored.at(entry.first).type.shape == weight.type.shape;
      });
      if (tables.size() != 1 || rivals != 1 || turned[0] == turned[1] || !is_made_up(name)) return std::string();
      log(LogLevel::info, "onnx",
          "'" + name + "' is taken to be the transpose of '" + tables[0] +
              "', to which it was tied; the bytes are not there to compare");
      return tables[0];
    }
    std::optional<Tensor> content;
    for (const std::string& candidate : tables) {
      if (!bytes_.has(found_.stored.at(candidate))) continue;
      if (!content) {
        Result<Tensor> read = bytes_.read(weight);
        if (!read) return read.error();
        content = transposed(*read);
      }
      const Result<Tensor> table = bytes_.read(found_.stored.at(candidate));
      if (!table) return table.error();
      if (std::ranges::equal(content->bytes(), table->bytes())) return candidate;
    }
    return std::string();
  }

  const Model& model_;
  const StoredBytes& bytes_;
  Constants found_;
};

}  // namespace

bool is_made_up(const std::string& name) {
  if (name.find("::") != std::string::npos || name.find("const_fold") != std::string::npos) return true;
  const std::size_t line = name.rfind('_');
  const bool counted = line != std::string::npos && line + 1 < name.size() &&
                       std::all_of(name.begin() + static_cast<std::ptrdiff_t>(line) + 1, name.end(),
                                   [](unsigned char c) { return std::isdigit(c) != 0; });
  return counted && name.find('.') == std::string::npos && name.find('/') == std::string::npos;
}

Result<Constants> find_constants(const Model& model, const StoredBytes& bytes) { return Finder(model, bytes).run(); }

Result<std::map<std::string, Tensor>> constant_tensors(const Constants& constants, const StoredBytes& bytes) {
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, literal] : constants.literals) tensors[name] = tensor_of(literal);
  for (const auto& [name, stored] : constants.stored) {
    if (!bytes.has(stored)) continue;
    Result<Tensor> tensor = bytes.read(stored);
    if (!tensor) return tensor.error();
    tensors[name] = constants.turned.contains(name) ? transposed(*tensor) : std::move(*tensor);
  }
  return tensors;
}

}  // namespace meshwright::onnx
