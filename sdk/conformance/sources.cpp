#include "sources.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "normal.h"
#include "split_mix.h"

namespace meshwright {

namespace {

class Drawer {
 public:
  Drawer(const std::string& name, std::uint64_t seed) : random_{seed} {
    for (const char c : name) random_.state = split_mix(random_.state ^ static_cast<unsigned char>(c)) + kSplitMixStep;
  }
  std::uint64_t next() { return random_.next(); }
  double uniform() { return random_.unit(); }
  double between(double low, double high) { return low + (high - low) * uniform(); }

 private:
  SplitMix random_;
};

// What an integer tensor is used for.
struct IntegerUse {
  std::int64_t below = 0;                 // 0: nothing indexes with it
  std::optional<std::int64_t> ignored;    // a label that a loss ignores
  bool only_labels = true;
};

bool keeps_values(const std::string& op) {
  static const char* const kOps[] = {"view",   "reshape", "slice",  "expand", "unsqueeze", "squeeze", "permute", "transpose", "select",
                                     "_to_copy", "cat",   "alias",  "clone",  "pad",       "detach",  "flip",    "split",     "chunk"};
  return std::any_of(std::begin(kOps), std::end(kOps), [&](const char* part) { return op.find(part) != std::string::npos; });
}

class UseFinder {
 public:
  explicit UseFinder(const Graph& graph) : graph_(graph), users_(graph.values.size()) {
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      for (const Operand& operand : graph.nodes[id].operands) users_[operand.value].push_back(id);
    }
  }

  IntegerUse find(ValueId source) {
    IntegerUse use;
    seen_.assign(graph_.values.size(), false);
    follow(source, use);
    return use;
  }

 private:
  void follow(ValueId value, IntegerUse& use) {
    if (seen_[value]) return;
    seen_[value] = true;
    for (const NodeId id : users_[value]) {
      const Node& node = graph_.nodes[id];
      for (std::size_t i = 0; i < node.operands.size(); ++i) {
        if (node.operands[i].value == value) visit(node, i, use);
      }
    }
  }

  void visit(const Node& node, std::size_t operand, IntegerUse& use) {
    const TensorType& first = graph_.type(node.operands[0].value);
    const auto limit = [&](std::int64_t size, bool label) {
      use.below = use.below == 0 ? size : std::min(use.below, size);
      use.only_labels &= label;
    };
    if (node.op == "aten.embedding" && operand == 1) return limit(first.shape[0], false);
    if (node.op == "aten.cross_entropy_loss" && operand == 1) {
      use.ignored = node.integer("ignore_index", -100);
      return limit(first.shape[first.rank() > 1 ? 1 : 0], true);
    }
    if ((node.op == "aten.gather" || node.op == "aten.index_select") && operand == 1) {
      const std::int64_t at = node.integer("dim", 0);
      return limit(first.shape[static_cast<std::size_t>(at < 0 ? at + first.rank() : at)], false);
    }
    if (node.op == "aten.index.Tensor" && operand > 0) {
      const std::string& name = node.operands[operand].name;  // "indices.1" indexes dimension 1
      return limit(first.shape[std::stoul(name.substr(name.find('.') + 1))], false);
    }
    if (!keeps_values(node.op)) return;
    for (const ValueId result : node.results) follow(result, use);
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> seen_;
};

// Most booleans, and integers that index nothing, are masks: mostly ones, so that hardly any row is masked as a whole.
bool draw_mask(Drawer& drawer) { return drawer.uniform() < 0.875; }

void draw_booleans(Tensor& tensor, Drawer& drawer) {
  for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, draw_mask(drawer) ? 1 : 0);
}

void draw_integers(Tensor& tensor, const IntegerUse& use, Drawer& drawer) {
  const std::int64_t below = use.below > 0 ? use.below : 2;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const bool ignored = use.ignored && use.only_labels && drawer.uniform() < 0.125;
    const auto drawn = use.below > 0 ? static_cast<std::int64_t>(drawer.next() % static_cast<std::uint64_t>(below))
                                     : std::int64_t{draw_mask(drawer)};
    tensor.set(i, static_cast<double>(ignored ? *use.ignored : drawn));
  }
}

void draw_normal(Tensor& tensor, double deviation, Drawer& drawer) {
  std::array<double, 512> numbers{}, turns{};
  for (std::int64_t first = 0; first < tensor.elements(); first += static_cast<std::int64_t>(numbers.size())) {
    const std::size_t count = std::min(numbers.size(), static_cast<std::size_t>(tensor.elements() - first));
    for (std::size_t i = 0; i < count; ++i) {
      numbers[i] = 1 - drawer.uniform();
      turns[i] = drawer.uniform();
    }
    make_normal(numbers.data(), turns.data(), count);
    for (std::size_t i = 0; i < count; ++i) tensor.set(first + static_cast<std::int64_t>(i), deviation * numbers[i]);
  }
}

// As networks are initialised: weights so that activations keep their size, scales about 1, the rest small.
void draw_reals(Tensor& tensor, SourceKind kind, const std::string& name, Drawer& drawer) {
  double low = -1, high = 1;
  if (kind == SourceKind::parameter && tensor.type().rank() >= 2) {
    std::int64_t fan_in = 1;
    for (std::size_t i = 1; i < tensor.shape().size(); ++i) fan_in *= tensor.shape()[i];
    // 0.02 is what GPT-2, BERT and ViT start from.
    const double deviation = std::clamp(std::sqrt(1.0 / static_cast<double>(fan_in)), 0.02, 0.3);
    return draw_normal(tensor, deviation, drawer);
  }
  if (kind == SourceKind::parameter) {
    const double center = name.ends_with("weight") ? 1 : 0;
    low = center - 0.1, high = center + 0.1;
  } else if (kind == SourceKind::buffer) {
    low = 0.5, high = 1.5;
  }
  for (std::int64_t i = 0; i < tensor.elements(); ++i) tensor.set(i, drawer.between(low, high));
}

}  // namespace

std::int64_t index_limit(const Graph& graph, ValueId source) { return UseFinder(graph).find(source).below; }

Result<std::map<ValueId, Tensor>> sample_sources(const Graph& graph, const std::map<std::string, Tensor>& given,
                                                 std::uint64_t seed) {
  std::map<ValueId, Tensor> sources;
  UseFinder uses(graph);
  for (const Source& source : graph.sources) {
    const Value& value = graph.values[source.value];
    if (const auto found = given.find(value.name); found != given.end()) {
      if (found->second.type() != value.type) {
        return bad_input("'" + value.name + "' is given as " + to_string(found->second.type()) + ", but the model says " +
                         to_string(value.type));
      }
      sources.emplace(source.value, found->second);
      continue;
    }
    const DType dtype = value.type.dtype;
    if (is_floating(dtype) && dtype != DType::float32 && dtype != DType::float64) {
      return bad_input("'" + value.name + "' is " + to_string(value.type) + ": a run on the CPU computes in float32 or float64");
    }
    Drawer drawer(source.names.empty() ? value.name : source.names[0], seed);
    Tensor& tensor = sources.emplace(source.value, Tensor(value.type)).first->second;
    if (is_floating(dtype)) {
      draw_reals(tensor, source.kind, source.names.empty() ? value.name : source.names[0], drawer);
    } else if (dtype == DType::boolean) {
      draw_booleans(tensor, drawer);
    } else {
      draw_integers(tensor, uses.find(source.value), drawer);
    }
  }
  return sources;
}

namespace {

Result<std::map<ValueId, Tensor>> sample_inputs(const Graph& graph, const std::map<std::string, Tensor>& given, std::uint64_t seed) {
  Graph inputs = graph;
  std::erase_if(inputs.sources, [](const Source& source) { return source.kind != SourceKind::user_input; });
  return sample_sources(inputs, given, seed);
}

}  // namespace

Result<std::vector<std::map<ValueId, Tensor>>> sample_microbatches(const Graph& graph, const std::map<std::string, Tensor>& given,
                                                                   std::int64_t microbatches) {
  std::vector<std::map<ValueId, Tensor>> drawn;
  for (std::int64_t microbatch = 1; microbatch < microbatches; ++microbatch) {
    Result<std::map<ValueId, Tensor>> inputs = sample_inputs(graph, given, static_cast<std::uint64_t>(microbatch));
    if (!inputs) return inputs.error();
    drawn.push_back(std::move(*inputs));
  }
  return drawn;
}

Result<std::vector<std::map<ValueId, Tensor>>> sample_step(const Graph& graph, const std::map<std::string, Tensor>& given, std::int64_t microbatches, std::int64_t step,
                                                           std::uint32_t seed) {
  std::vector<std::map<ValueId, Tensor>> drawn;
  for (std::int64_t microbatch = 0; microbatch < microbatches; ++microbatch) {
    Result<std::map<ValueId, Tensor>> inputs = sample_inputs(graph, given, sources_seed(seed) + static_cast<std::uint64_t>(step * microbatches + microbatch));
    if (!inputs) return inputs.error();
    drawn.push_back(std::move(*inputs));
  }
  return drawn;
}

Result<std::vector<std::vector<std::map<ValueId, Tensor>>>> sample_steps(const Graph& graph, const std::map<std::string, Tensor>& given,
                                                                         std::int64_t microbatches, std::int64_t steps) {
  std::vector<std::vector<std::map<ValueId, Tensor>>> drawn;
  for (std::int64_t step = 1; step < steps; ++step) {
    Result<std::vector<std::map<ValueId, Tensor>>> inputs = sample_step(graph, given, microbatches, step);
    if (!inputs) return inputs.error();
    drawn.push_back(std::move(*inputs));
  }
  return drawn;
}

}  // namespace meshwright
