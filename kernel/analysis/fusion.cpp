#include "meshwright/fusion.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

namespace meshwright {

namespace {

// Of the largest row that a multiprocessor keeps until its sum is known: so many registers of 32 bits have NVIDIA's from Kepler on
// (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"). What a longer row's sum is used for reads it again.
constexpr std::int64_t kLongestRow = 65'536;

// Dimensions in order, neighbours of a kind as one: what a reduction runs along, and what it is done for.
struct Run {
  bool reduced = false;
  std::int64_t size = 1;
  bool operator==(const Run&) const = default;
};

// The points that an op works through: of an elementwise one the elements that it makes, of a reduction those that it reads.
struct Space {
  std::vector<Run> runs;  // of a reduction
  std::int64_t elements = 1;

  [[nodiscard]] bool reduces() const { return !runs.empty(); }
};

bool has(const TensorRule& tensor, FactorId factor) {
  const auto is_in = [&](const std::vector<FactorId>& factors) { return std::ranges::find(factors, factor) != factors.end(); };
  return std::ranges::any_of(tensor.dimensions, is_in);
}

std::int64_t points(const Rule& rule, const TensorRule& tensor) {
  std::int64_t product = 1;
  for (const std::vector<FactorId>& factors : tensor.dimensions) {
    for (const FactorId factor : factors) product *= rule.factors[factor].size;
  }
  return product;
}

std::vector<Run> runs_of(const Rule& rule) {
  const TensorRule* widest = &rule.results[0];
  for (const auto* tensors : {&rule.results, &rule.operands}) {
    for (const TensorRule& tensor : *tensors) widest = points(rule, tensor) > points(rule, *widest) ? &tensor : widest;
  }
  std::vector<Run> runs;
  for (const std::vector<FactorId>& factors : widest->dimensions) {
    for (const FactorId id : factors) {
      const Factor& factor = rule.factors[id];
      if (factor.size == 1) continue;
      const bool reduced = factor.whole || factor.internal || !has(rule.results[0], id);
      if (!runs.empty() && runs.back().reduced == reduced) runs.back().size *= factor.size;
      else runs.push_back({reduced, factor.size});
    }
  }
  return std::ranges::any_of(runs, &Run::reduced) ? runs : std::vector<Run>{};
}

// What several ops in one kernel work through.
struct Kernel {
  std::vector<NodeId> nodes;           // in the graph's order
  std::vector<Run> runs;               // of its reductions
  std::set<std::int64_t> elements;     // of its elementwise ops, but for those that read nothing

  // Whether one kernel can do both.
  static bool fit(const Kernel& a, const Kernel& b) {
    if (!a.runs.empty() && !b.runs.empty() && a.runs != b.runs) return false;
    std::set<std::int64_t> elements = a.elements;
    elements.insert(b.elements.begin(), b.elements.end());
    const std::vector<Run>& runs = a.runs.empty() ? b.runs : a.runs;
    if (runs.empty()) return elements.size() <= 1;
    std::int64_t read = 1, left = 1;
    for (const Run& run : runs) {
      read *= run.size;
      if (!run.reduced) left *= run.size;
    }
    return std::ranges::all_of(elements, [&](std::int64_t each) { return each == read || each == left; });
  }
};

class Fuser {
 public:
  Fuser(const Graph& graph, const AtomizedGraph& atoms, NodeId first_backward, const std::vector<ValueId>& kept)
      : graph_(graph),
        atoms_(atoms),
        first_backward_(first_backward),
        kernel_of_(graph.nodes.size()),
        kernels_(graph.nodes.size()),
        fused_(graph.nodes.size()) {
    find_owners();
    find_spaces();
    find_stages();
    find_uses(kept);
  }

  std::vector<FusedCall> run() {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (!fuses_[id]) continue;
      for (const Operand& operand : graph_.nodes[id].operands) join(maker(operand.value), id);
    }
    for (const Kernel& kernel : kernels_) {
      if (kernel.nodes.size() > 1) settle(kernel);
    }
    return std::move(fused_);
  }

 private:
  // A view that a kernel looks through, since the elements of its operand come in their order, each perhaps several times.
  [[nodiscard]] bool is_transparent(NodeId id) const {
    const Node& node = graph_.nodes[id];
    const AtomizedNode& atoms = atoms_.nodes[id];
    if (!atoms.cost.alias || node.results.size() != 1 || node.operands.empty()) return false;
    const TensorType &from = graph_.type(node.operands[0].value), &to = graph_.type(node.results[0]);
    const bool in_place = atoms.rule.operands[0].dimensions == atoms.rule.results[0].dimensions && from.shape == to.shape;
    return atoms.cost.keeps_order || in_place || to.elements() > from.elements();
  }

  void find_owners() {
    owner_.resize(graph_.values.size());
    std::iota(owner_.begin(), owner_.end(), ValueId{0});
    transparent_.resize(graph_.nodes.size());
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      transparent_[id] = is_transparent(id);
      if (transparent_[id]) owner_[graph_.nodes[id].results[0]] = owner_[graph_.nodes[id].operands[0].value];
    }
  }

  void find_spaces() {
    fuses_.resize(graph_.nodes.size());
    spaces_.resize(graph_.nodes.size());
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const Node& node = graph_.nodes[id];
      const AtomizedNode& atoms = atoms_.nodes[id];
      const bool is_seed = id == first_backward_;
      fuses_[id] = atoms.ruled && atoms.cost.fusion != Fusion::none && !atoms.cost.alias && !node.results.empty() && !is_seed;
      for (const ValueId result : node.results) spaces_[id].elements = std::max(spaces_[id].elements, graph_.type(result).elements());
      if (!fuses_[id]) continue;
      if (atoms.cost.fusion == Fusion::reduction) spaces_[id].runs = runs_of(atoms.rule);
      Kernel& kernel = kernels_[id];
      kernel.nodes = {id};
      kernel.runs = spaces_[id].runs;
      if (!spaces_[id].reduces() && !node.operands.empty()) kernel.elements = {spaces_[id].elements};
      kernel_of_[id] = id;
    }
  }

  [[nodiscard]] NodeId maker(ValueId value) const { return graph_.values[owner_[value]].producer; }

  // Whether what reads this has to wait until another kernel has ended.
  [[nodiscard]] bool ends_kernel(NodeId from, ValueId value, NodeId to) const {
    if (!fuses_[from]) return true;
    const bool one_for_many = (spaces_[to].elements - 1) / kLongestRow >= graph_.type(owner_[value]).elements();
    return one_for_many && !graph_.nodes[from].operands.empty();
  }

  // How many kernels have to end, one after the other, before each node can run. On the way from a node to another one of the same
  // stage there are only such as fuse.
  void find_stages() {
    stage_.assign(graph_.nodes.size(), 0);
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      for (const Operand& operand : graph_.nodes[id].operands) {
        const NodeId from = maker(operand.value);
        if (from != kNoId) stage_[id] = std::max(stage_[id], stage_[from] + (ends_kernel(from, operand.value, id) ? 1U : 0U));
      }
    }
  }

  void find_uses(const std::vector<ValueId>& kept) {
    users_.resize(graph_.values.size());
    kept_.assign(graph_.values.size(), false);
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      if (transparent_[id]) continue;
      for (const Operand& operand : graph_.nodes[id].operands) users_[owner_[operand.value]].push_back(id);
    }
    for (const Output& output : graph_.outputs) kept_[owner_[output.value]] = true;
    for (const ValueId value : kept) kept_[owner_[value]] = true;
  }

  [[nodiscard]] bool is_backward(NodeId id) const { return id >= first_backward_; }

  // Makes one kernel of those of a node and of one that reads what it makes, if that can be.
  void join(NodeId from, NodeId to) {
    if (from == kNoId || !fuses_[from] || is_backward(from) != is_backward(to) || stage_[from] != stage_[to]) return;
    const NodeId first = kernel_of_[from], second = kernel_of_[to];
    if (first == second || !Kernel::fit(kernels_[first], kernels_[second]) || waits_for_another(first, second)) return;
    Kernel &whole = kernels_[first], &part = kernels_[second];
    std::vector<NodeId> nodes;
    std::ranges::merge(whole.nodes, part.nodes, std::back_inserter(nodes));
    for (const NodeId id : part.nodes) kernel_of_[id] = first;
    whole.nodes = std::move(nodes);
    if (whole.runs.empty()) whole.runs = std::move(part.runs);
    whole.elements.insert(part.elements.begin(), part.elements.end());
    part = {};
  }

  // Whether a third kernel reads what the first one makes, and makes what the second one reads. It is of the same stage as these.
  [[nodiscard]] bool waits_for_another(NodeId first, NodeId second) const {
    std::set<NodeId> seen = {first};
    std::vector<NodeId> open = {first};
    while (!open.empty()) {
      const NodeId kernel = open.back();
      open.pop_back();
      for (const NodeId id : kernels_[kernel].nodes) {
        for (const ValueId result : graph_.nodes[id].results) {
          for (const NodeId user : users_[result]) {
            if (!fuses_[user] || stage_[user] != stage_[id]) continue;
            const NodeId next = kernel_of_[user];
            if (next == second && kernel != first) return true;
            if (next != second && seen.insert(next).second) open.push_back(next);
          }
        }
      }
    }
    return false;
  }

  // What stays in registers.
  void settle(const Kernel& kernel) {
    const NodeId name = kernel_of_[kernel.nodes.front()];
    const auto is_inside = [&](NodeId id) { return id != kNoId && fuses_[id] && kernel_of_[id] == name; };
    std::set<ValueId> read;  // from memory, once
    NodeId last = kernel.nodes.back();
    for (const NodeId id : kernel.nodes) {
      const Node& node = graph_.nodes[id];
      FusedCall& fused = fused_[id];
      fused.launches = false;
      for (const Operand& operand : node.operands) {
        fused.unread.push_back(is_inside(maker(operand.value)) || !read.insert(owner_[operand.value]).second);
      }
      for (const ValueId result : node.results) {
        const std::vector<NodeId>& users = users_[result];
        fused.unwritten.push_back(!kept_[result] && !users.empty() && std::ranges::all_of(users, is_inside));
      }
      if (std::ranges::find(fused.unwritten, false) != fused.unwritten.end()) last = id;
    }
    fused_[last].launches = true;  // one that writes, and so takes some time
  }

  const Graph& graph_;
  const AtomizedGraph& atoms_;
  const NodeId first_backward_;
  std::vector<ValueId> owner_;                // by value: what it is, seen through views
  std::vector<bool> transparent_, fuses_;     // by node
  std::vector<Space> spaces_;                 // by node
  std::vector<std::uint32_t> stage_;          // by node
  std::vector<std::vector<NodeId>> users_;    // by owner: the nodes that read it
  std::vector<bool> kept_;                    // by owner: it is needed when the graph has run
  std::vector<NodeId> kernel_of_;             // by node that fuses: the kernel, which is named after one of its nodes
  std::vector<Kernel> kernels_;
  std::vector<FusedCall> fused_;
};

}  // namespace

std::vector<FusedCall> fuse(const Graph& graph, const AtomizedGraph& atoms, NodeId first_backward,
                            const std::vector<ValueId>& kept) {
  return Fuser(graph, atoms, first_backward, kept).run();
}

FusedCall fused_step(const FusedCall& fused, const Node& call, const std::vector<Operand>& operands,
                     const std::vector<ValueId>& results) {
  if (fused == FusedCall{} || (operands == call.operands && results == call.results)) return fused;
  FusedCall step;
  for (const Operand& operand : operands) {
    if (operand.value == kNoId) continue;
    bool found = false, unread = true;  // one value may be several operands, of which the first one is read
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
      if (call.operands[i].value != operand.value) continue;
      found = true;
      unread &= i < fused.unread.size() && fused.unread[i];
    }
    step.unread.push_back(found && unread);
  }
  for (const ValueId result : results) {
    const auto at = static_cast<std::size_t>(std::ranges::find(call.results, result) - call.results.begin());
    step.unwritten.push_back(at < fused.unwritten.size() && fused.unwritten[at]);
  }
  return step;
}

}  // namespace meshwright
