#include <set>

#include "model.h"

namespace meshwright::onnx {

namespace {

constexpr int kDeepest = 32;  // calls within calls; a function that calls itself has no end

class Inliner {
 public:
  explicit Inliner(Model& model) : model_(model) {}

  Status run() {
    std::vector<ModelNode> calls = std::move(model_.nodes);
    model_.nodes.clear();
    for (ModelNode& node : calls) {
      if (Status status = add(std::move(node), 0); !status) return status;
    }
    return Done{};
  }

 private:
  Status add(ModelNode node, int depth) {
    const auto function = model_.functions.find(node.domain + "::" + node.op);
    if (function == model_.functions.end()) {
      model_.nodes.push_back(std::move(node));
      return Done{};
    }
    const std::string where = "node '" + (node.name.empty() ? node.op : node.name) + "'";
    if (depth == kDeepest)
      return bad_input(where + ": the model's function '" + node.op + "' calls itself, or is nested too deep");
    if (node.inputs.size() > function->second.inputs.size() || node.outputs.size() > function->second.outputs.size()) {
      return bad_input(where + ": the model's function '" + node.op +
                       "' takes or gives fewer values than it is called with");
    }
    std::string prefix = (node.name.empty() ? node.op : node.name) + "/";
    while (!prefixes_.insert(prefix).second) prefix.insert(prefix.size() - 1, "_" + std::to_string(++count_));
    std::map<std::string, std::string> names;  // the function's values -> the caller's
    names[""] = "";
    for (std::size_t i = 0; i < function->second.inputs.size(); ++i) {
      names[function->second.inputs[i]] = i < node.inputs.size() ? node.inputs[i] : "";
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].empty()) names.emplace(function->second.outputs[i], node.outputs[i]);
    }
    const auto rename = [&](std::string& value) {
      const auto known = names.find(value);
      value = known != names.end() ? known->second : prefix + value;
    };
    for (const ModelNode& inner : function->second.nodes) {
      ModelNode copy = inner;
      copy.name = prefix + inner.name;
      if (copy.module_path.empty()) copy.module_path = node.module_path;
      for (std::string& value : copy.inputs) rename(value);
      for (std::string& value : copy.outputs) rename(value);
      resolve(copy, node, function->second);
      if (Status status = add(std::move(copy), depth + 1); !status) return status;
    }
    return Done{};
  }

  // Attributes that refer to the function's own take the caller's value, or the default, or go.
  static void resolve(ModelNode& node, const ModelNode& call, const ModelFunction& function) {
    for (auto attribute = node.attributes.begin(); attribute != node.attributes.end();) {
      const auto* reference = std::get_if<AttributeReference>(&attribute->second);
      if (reference == nullptr) {
        ++attribute;
        continue;
      }
      const std::string name = reference->name;
      const auto given = call.attributes.find(name);
      const auto otherwise = function.defaults.find(name);
      if (given != call.attributes.end())
        attribute->second = given->second;
      else if (otherwise != function.defaults.end())
        attribute->second = otherwise->second;
      else {
        attribute = node.attributes.erase(attribute);
        continue;
      }
      ++attribute;
    }
  }

  Model& model_;
  std::set<std::string> prefixes_;
  int count_ = 0;
};

}  // namespace

Status inline_functions(Model& model) {
  if (model.functions.empty()) return Done{};
  return Inliner(model).run();
}

}  // namespace meshwright::onnx
