#include "call_text.h"

#include <algorithm>

#include "python_text.h"

namespace meshwright::torch {

namespace {

// What an op on local tensors need not be told.
bool is_of_no_concern(const std::string& attribute) {
  static const std::set<std::string, std::less<>> kOfNoConcern = {"device",        "layout",       "pin_memory", "implicit", "cudnn_enable",
                                                                  "memory_format", "non_blocking", "copy"};
  return kOfNoConcern.contains(attribute);
}

// Whether the schema of every op that has this optional argument gives it this default.
bool is_usual(const std::string& attribute, const Attribute& value) {
  static const std::set<std::string, std::less<>> kKeywords = {"dtype", "generator"};
  return std::holds_alternative<std::monostate>(value) && kKeywords.contains(attribute);
}

// What PyTorch's functions that people write take where a call says nothing.
bool is_default(const std::string& attribute, const Attribute& value) {
  if (std::holds_alternative<std::monostate>(value) || is_of_no_concern(attribute)) return true;
  if (attribute == "padding_idx") return value == Attribute(std::int64_t{-1}) || value == Attribute();
  if (attribute == "alpha" || attribute == "beta") return value == Attribute(std::int64_t{1}) || value == Attribute(1.0);
  if (attribute == "approximate") return value == Attribute(std::string("none"));
  if (attribute == "groups") return value == Attribute(std::int64_t{1});
  if (attribute == "ignore_index") return value == Attribute(std::int64_t{-100});
  if (attribute == "end_dim") return value == Attribute(std::int64_t{-1});
  if (attribute == "reduction") return value == Attribute(std::int64_t{1});
  if (attribute == "label_smoothing" || attribute == "dropout_p") return value == Attribute(0.0);
  for (const char* flag : {"keepdim", "scale_grad_by_freq", "sparse", "is_causal", "enable_gqa", "half_to_float"}) {
    if (attribute == flag) return value == Attribute(false);
  }
  return false;
}

std::string attribute_text(const std::string& name, const Attribute& value, bool by_schema) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (name == "dtype") return named_dtype(*text);
    if (name == "memory_format") return memory_format(*text);
  }
  if (const auto* code = std::get_if<std::int64_t>(&value); code != nullptr && name == "reduction" && !by_schema) {
    return *code == 0 ? "\"none\"" : *code == 1 ? "\"mean\"" : "\"sum\"";
  }
  return literal(value);
}

bool is_position(const std::string& name) {
  return name.ends_with("_atoms") || name.ends_with("_extents") || name.ends_with("_starts");
}

}  // namespace

CallText::CallText(const EmitterCall& call) : call_(call) {
  for (const EmitterOperand& operand : call.operands) {
    const std::size_t dot = operand.name.rfind('.');
    const bool element = dot != std::string::npos && operand.name.find_first_not_of("0123456789", dot + 1) == std::string::npos;
    if (!element) {
      texts_[operand.name] = operand.text;
      continue;
    }
    std::vector<std::string>& elements = lists_[operand.name.substr(0, dot)];
    elements.resize(std::stoul(operand.name.substr(dot + 1)) + 1, "None");  // what is absent is none
    elements.back() = operand.text;
  }
  for (const auto& [name, elements] : lists_) texts_[name] = list(elements);
  for (const auto& [name, attribute] : call.attributes) {
    if (!is_position(name) && !is_default(name, attribute)) said_.insert(name);
  }
}

std::string CallText::in_form(std::string_view form) const {
  std::set<std::string> mentioned;
  const std::string text = filled(form, mentioned);
  for (const std::string& name : said_) {
    if (!mentioned.contains(name)) return "";
  }
  for (const auto& [name, operand] : texts_) {
    if (!mentioned.contains(name)) return "";
  }
  return text;
}

std::string CallText::by_schema(const std::set<std::string>& said) const {
  std::vector<std::string> arguments;
  for (const auto& [name, text] : texts_) arguments.push_back(identifier(name) + "=" + text);
  for (const auto& [name, attribute] : call_.attributes) {
    const bool defaulted = (is_of_no_concern(name) && !said.contains(name)) || is_usual(name, attribute);
    if (!is_position(name) && !defaulted) arguments.push_back(identifier(name) + "=" + attribute_text(name, attribute, true));
  }
  if (call_.operands.empty() && call_.op.starts_with("aten.")) arguments.push_back("device=device()");
  std::string op = call_.op;
  if (std::count(op.begin(), op.end(), '.') == 1) op += ".default";
  return "torch.ops." + dotted_name(op) + "(" + join(arguments) + ")";
}

std::string CallText::helper(const std::string& name, const std::vector<std::string>& positional, const std::vector<std::string>& named,
                   const std::vector<std::string>& more) const {
  std::vector<std::string> arguments;
  for (const std::string& each : positional) arguments.push_back(has(each) ? text(each) : "None");
  for (const std::string& each : named) {
    if (has(each)) arguments.push_back(each + "=" + text(each));
  }
  for (const std::string& each : more) {
    if (!each.empty()) arguments.push_back(each);
  }
  return name + "(" + join(arguments) + ")";
}

std::string CallText::text(const std::string& name) const {
  const auto operand = texts_.find(name);
  return operand != texts_.end() ? operand->second : attribute_text(name, call_.attributes.at(name), false);
}

std::string CallText::filled(std::string_view form, std::set<std::string>& mentioned) const {
  std::string made;
  for (std::size_t at = 0; at < form.size();) {
    if (form[at] == '[') {
      const std::size_t end = form.find(']', at);
      const std::string_view inner = form.substr(at + 1, end - at - 1);
      const std::size_t open = inner.find('{');
      if (has(std::string(inner.substr(open + 1, inner.find('}') - open - 1)))) made += filled(inner, mentioned);
      at = end + 1;
    } else if (form[at] == '{') {
      const std::size_t end = form.find('}', at);
      const std::string name(form.substr(at + 1, end - at - 1));
      mentioned.insert(name);
      const auto attribute = call_.attributes.find(name);
      if (!texts_.contains(name) && attribute == call_.attributes.end()) made += "None";
      else made += texts_.contains(name) ? texts_.at(name) : attribute_text(name, attribute->second, false);
      at = end + 1;
    } else {
      made += form[at++];
    }
  }
  return made;
}

std::string named(const char* name, const std::string& text) { return text.empty() ? "" : std::string(name) + "=" + text; }

bool is_mean_over(const EmitterCall& call, const std::vector<std::int64_t>& over) {
  constexpr std::int64_t kMean = 1;  // of PyTorch's reductions
  if (over.empty() || call.results.size() != 1 || call.node().integer("reduction", kMean) != kMean) return false;
  return axes_where(call.mesh, call.results[0].layout, [](Placement placement) { return placement.is_partial(); }) == over;
}

std::string axes_argument(const char* name, const std::vector<std::int64_t>& axes) { return axes.empty() ? "" : named(name, tuple(axes)); }

std::string positions_argument(const EmitterCall& call, const std::string& name) {
  return named(name.c_str(), positions(call.attributes, call.rank_attributes, name));
}

std::string positions_argument(const EmitterStep& step, const std::string& name) {
  return named(name.c_str(), positions(step.attributes, step.rank_attributes, name));
}

std::string stream_argument(const EmitterCall& call) { return "stream=" + quoted(call.stream); }

std::vector<std::int64_t> moved_axes(const std::vector<EmitterStep>& steps) {
  std::vector<std::int64_t> axes;
  for (const EmitterStep& step : steps) {
    for (const std::size_t each : step.axes) {
      const auto axis = static_cast<std::int64_t>(each);
      if (std::find(axes.begin(), axes.end(), axis) == axes.end()) axes.push_back(axis);
    }
  }
  return axes;
}

}  // namespace meshwright::torch
