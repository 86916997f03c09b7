#include "suggestions.h"

#include <algorithm>
#include <optional>

#include "units.h"

namespace meshwright::host {

namespace {

constexpr std::int64_t kWorkLimit = 50'000'000;
constexpr std::size_t kMostTried = 2;

// What a plan holds at its peak, by what a change scales.
struct Peak {
  double state = 0;        // parameters and what the optimizer keeps
  double copies = 0;       // gradients and gathered parameters
  double activations = 0;  // all that grows with the batch

  [[nodiscard]] std::int64_t scaled(double of_state, double of_copies, double of_activations) const {
    return static_cast<std::int64_t>(of_state * state + of_copies * copies + of_activations * activations);
  }
};

Peak peak_of(const MemoryProfile& memory) {
  const MemorySplit& held = memory.curve[memory.peak];
  Peak peak;
  peak.state = static_cast<double>(held[MemoryKind::parameter] + held[MemoryKind::optimizer]);
  // Microbatches keep all gradients, also where the peak comes before most of them.
  peak.copies = static_cast<double>(std::max(held[MemoryKind::gradient], memory.gradient_bytes) + held[MemoryKind::gathered]);
  peak.activations = static_cast<double>(held.sum()) - peak.state - static_cast<double>(held[MemoryKind::gradient] + held[MemoryKind::gathered]);
  return peak;
}

class Suggester {
 public:
  explicit Suggester(const SuggestionInput& input) : input_(input) {
    if (input.smallest == nullptr || input.smallest->memory.curve.empty()) return;
    peak_ = peak_of(input.smallest->memory);
    for (const MeshAxis& axis : input.smallest->plan.mesh.axes) shape_.push_back(axis.size);
  }

  std::vector<Suggestion> run() {
    if (input_.limits_zero) suggest("search.zero=free", peak_ ? peak_->scaled(1.0 / ranks(), 1, 1) : 0);
    for (std::int64_t parts = 2; parts <= 16 && parts * input_.microbatches <= input_.batch; parts *= 2) {
      const std::int64_t microbatches = parts * input_.microbatches;
      if (input_.batch % microbatches != 0) continue;
      if (suggest("train.microbatches=" + std::to_string(microbatches), peak_ ? peak_->scaled(1, 1, 1.0 / static_cast<double>(parts)) : 0)) break;
    }
    // A master copy takes what the values are relieved of.
    if (input_.is_fp32) suggest("train.dtype=bf16", peak_ ? peak_->scaled(1, 0.5, 0.5) : 0);
    for (const int factor : {2, 4}) {
      if (suggest_nodes(factor)) break;
    }
    if (input_.limits_mesh) {
      Suggestion& suggestion = made_.emplace_back(Suggestion{"any other mesh", input_.options});
      suggestion.options.mesh.clear();
      suggestion.options.set.push_back("cluster.mesh=");
    }
    // It is enough to know whether anything fits.
    for (Suggestion& suggestion : made_) {
      suggestion.options.explain = false;
      suggestion.options.set.push_back("search.work_limit=" + std::to_string(kWorkLimit));
    }
    return std::move(made_);
  }

 private:
  // Whether it may do.
  bool suggest(const std::string& key_and_value, std::int64_t about_bytes) {
    if (about_bytes > input_.budget_bytes) return false;
    Suggestion& suggestion = made_.emplace_back(Suggestion{key_and_value, input_.options, about_bytes});
    suggestion.options.set.push_back(key_and_value);
    if (!shape_.empty()) suggestion.options.mesh = mesh_text(shape_);
    return true;
  }

  // The first axis is the one between nodes; one axis alone gets another one before it.
  bool suggest_nodes(int factor) {
    const std::int64_t about_bytes = peak_ ? peak_->scaled(1.0 / factor, 1.0 / factor, 1.0 / factor) : 0;
    if (about_bytes > input_.budget_bytes) return false;
    Suggestion& suggestion = made_.emplace_back(Suggestion{std::to_string(factor) + " times the nodes", input_.options, about_bytes});
    suggestion.options.node_factor = factor;
    std::vector<std::int64_t> shape = shape_;
    if (shape.size() == 1) shape.insert(shape.begin(), factor);
    else if (!shape.empty()) shape.front() *= factor;
    suggestion.options.mesh = mesh_text(shape);
    if (shape.empty()) suggestion.options.set.push_back("cluster.mesh=");
    return true;
  }

  [[nodiscard]] double ranks() const {
    double product = 1;
    for (const std::int64_t size : shape_) product *= static_cast<double>(size);
    return product;
  }

  static std::string mesh_text(const std::vector<std::int64_t>& shape) {
    std::string text;
    for (const std::int64_t size : shape) text += (text.empty() ? "" : "x") + std::to_string(size);
    return text;
  }

  const SuggestionInput& input_;
  std::optional<Peak> peak_;
  std::vector<std::int64_t> shape_;  // of the smallest plan's mesh
  std::vector<Suggestion> made_;
};

}  // namespace

std::vector<Suggestion> suggestions(const SuggestionInput& input) { return Suggester(input).run(); }

std::string suggestions_text(const std::vector<Suggestion>& suggestions,
                             const std::function<Result<PlanOutcome>(const PlanOptions&)>& plan) {
  std::string fits, tried, others;
  const auto list = [](std::string& names, const std::string& name) { names += (names.empty() ? "" : ", ") + name; };
  std::size_t count = 0;
  for (const Suggestion& suggestion : suggestions) {
    if (count == kMostTried || suggestion.options.mesh.empty()) {  // a search of many meshes takes many times as long
      list(others, suggestion.change + (suggestion.about_bytes > 0 ? " (about " + size_text(suggestion.about_bytes) + ")" : ""));
      continue;
    }
    ++count;
    const Result<PlanOutcome> outcome = plan(suggestion.options);
    if (!outcome || !outcome->plan) {
      list(tried, suggestion.change);
      continue;
    }
    fits += (fits.empty() ? "\n  with " : "; with ") + suggestion.change + " a plan fits: " + size_text(outcome->plan->peak_bytes) + " on mesh " +
            to_string(outcome->plan->mesh) + ", " + milliseconds(outcome->plan->step_seconds) + " a step";
  }
  std::string text = fits;
  if (fits.empty() && !tried.empty()) text += "\n  none of these alone would fit: " + tried;
  if (!others.empty()) text += "\n  not tried, but may do: " + others;
  if (text.empty()) text += "\n  no single change is known that would do: more than 16 times the microbatches or 4 times the nodes are needed";
  return text;
}

}  // namespace meshwright::host
