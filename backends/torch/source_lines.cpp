#include "source_lines.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "python_text.h"

namespace meshwright::torch {

namespace {

constexpr std::size_t kWidth = 120;

// "linear" of "linear_3.1", "attention_bias" of "attention_2_bias": layers that are alike are then written alike.
std::string base(const std::string& value) {
  std::vector<std::string> path = split(value.substr(0, value.find('~')));
  while (path.size() > 1 && is_number(path.back())) path.pop_back();
  const std::string& name = path.back();
  std::string made;
  for (std::size_t at = 0; at < name.size();) {
    const std::size_t end = std::min(name.find('_', at), name.size());
    const std::string word = name.substr(at, end - at);
    if (!word.empty() && !is_number(word)) made += (made.empty() ? "" : "_") + word;
    at = end + 1;
  }
  return made.empty() ? "value" : made == "getitem" ? "part" : identifier(made);
}

// What a program imports.
bool is_imported(const std::string& name) {
  static const std::set<std::string> kImported = {"self", "torch", "F", "nn", "dist", "funcol", "math", "os", "sys", "dataclass", "i", "again"};
  return kImported.contains(name);
}

}  // namespace

std::string wrapped(const std::string& indent, const std::string& text) {
  if (indent.size() + text.size() <= kWidth) return indent + text + "\n";
  std::size_t open = std::string::npos, close = std::string::npos;
  std::vector<std::size_t> commas;
  int depth = 0;
  bool quoted = false;
  // The bracket that ends the line, so that what stands before it stays on the first line.
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '(' || c == '[' || c == '{') {
      if (depth++ == 0) {
        open = i;
        commas.clear();
      }
    } else if (c == ')' || c == ']' || c == '}') {
      if (--depth == 0) close = i;
    } else if (c == ',' && depth == 1) {
      commas.push_back(i);
    }
  }
  if (open == std::string::npos || close == std::string::npos || close < open || close == open + 1) return indent + text + "\n";
  std::string made = indent + text.substr(0, open + 1) + "\n";
  std::size_t at = open + 1;
  const std::string deeper = indent + "    ";
  const auto part = [&](std::size_t begin, std::size_t end, bool comma) {
    while (begin < end && text[begin] == ' ') ++begin;
    if (begin == end) return;
    std::string line = wrapped(deeper, text.substr(begin, end - begin));
    if (comma) line.insert(line.size() - 1, ",");
    made += line;
  };
  for (const std::size_t comma : commas) {
    part(at, comma, true);
    at = comma + 1;
  }
  const bool comprehension = text.substr(at, close - at).find(" for ") != std::string::npos;
  // x[0] and (a + b) are other things with a comma in them; f(a) and [a] are not.
  const bool follows_name = open > 0 && (std::isalnum(static_cast<unsigned char>(text[open - 1])) != 0 || std::string_view("_])").find(text[open - 1]) != std::string_view::npos);
  const bool changes = commas.empty() && (text[open] == '[' ? follows_name : text[open] == '(' && !follows_name);
  part(at, close, !comprehension && !changes);
  return made + indent + text.substr(close) + "\n";
}

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> parts;
  std::size_t at = 0;
  while (at <= path.size() && !path.empty()) {
    const std::size_t dot = std::min(path.find('.', at), path.size());
    parts.push_back(path.substr(at, dot - at));
    at = dot + 1;
  }
  return parts;
}

bool is_number(const std::string& text) { return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos; }

bool is_attribute(const std::string& name, bool root) {
  // What every planned model has besides its members (prelude/state.py, those of stages in prelude/pipeline.py, and the Python package's models).
  static const std::set<std::string> kOwn = {"INPUTS", "OUTPUTS", "TIED", "DRAWS", "MICROBATCHES", "microbatches", "plan", "source", "mean", "statistics", "local_batch", "local_input",
      "gather_output", "load_whole", "names_of", "named_shards", "set_shard", "draw_weights", "whole_state_dict", "step_in_backward",
      "clip_grad_norm_", "checkpoint_state_dict", "named_groups", "load_checkpoint_state_dict", "load_optimizer", "save_checkpoint",
      "load_checkpoint", "global_batch_size", "local_batch_size", "load_pretrained", "call_whole",
      "STAGE", "RECEIVED", "SENT", "sums", "here", "compute", "backward", "take_leaf_gradients", "holds"};
  return identifier(name) == name && !(root && kOwn.contains(name));
}

std::string self_path(const std::string& path) {
  std::string text = "self";
  bool root = true;
  for (const std::string& part : split(path)) {
    if (is_number(part)) text += "[" + part + "]";
    else text += is_attribute(part, root) ? "." + part : "[" + quoted(part) + "]";
    root = false;
  }
  return text;
}

std::string relative(const std::string& path, const std::string& prefix) {
  if (prefix.empty()) return path;
  return path.size() > prefix.size() && path.starts_with(prefix + ".") ? path.substr(prefix.size() + 1) : "";
}

std::string Names::of(ProgramValueId value, const Program& program) {
  const auto [known, fresh] = names_.try_emplace(value);
  if (fresh) known->second = unused(base(program.values[value].name));
  return known->second;
}

void Names::take(ProgramValueId value, const std::string& name) { names_[value] = unused(name); }

std::string Names::unused(const std::string& wanted) {
  int& count = used_[wanted];
  if (count++ == 0 && !is_imported(wanted) && !defined_.contains(wanted)) return wanted;
  while (true) {
    std::string name = wanted + "_" + std::to_string(count);
    if (used_.try_emplace(name, 1).second) return name;
    ++count;
  }
}

}  // namespace meshwright::torch
