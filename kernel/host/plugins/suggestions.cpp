#include "plugins/suggestions.h"

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
  const MemorySplit& held = memory.curve[memory.peak].held;
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
    mesh_ = input.smallest->plan.mesh;
  }

  std::vector<Suggestion> run() {
    if (input_.limits_zero) suggest_setting("search.zero=free", about(1.0 / static_cast<double>(mesh_.devices()), 1, 1));
    for (std::int64_t parts = 2; parts <= 16 && parts * input_.microbatches <= input_.batch; parts *= 2) {
      const std::int64_t microbatches = parts * input_.microbatches;
      if (input_.batch % microbatches != 0) continue;
      if (suggest_setting("train.microbatches=" + std::to_string(microbatches), about(1, 1, 1.0 / static_cast<double>(parts)))) break;
    }
    // A master copy takes what the values are relieved of.
    if (input_.is_fp32) suggest_setting("train.dtype=bf16", about(1, 0.5, 0.5));
    for (const int factor : {2, 4}) {
      if (suggest_nodes(factor)) break;
    }
    if (input_.limits_mesh) suggest_other_meshes(*suggest("any other mesh", 0));
    // It is enough to know whether anything fits.
    for (Suggestion& suggestion : made_) {
      suggestion.options.explain = false;
      suggestion.options.set.push_back("search.work_limit=" + std::to_string(kWorkLimit));
    }
    return std::move(made_);
  }

 private:
  // What the smallest plan would hold; 0 if none is known.
  [[nodiscard]] std::int64_t about(double of_state, double of_copies, double of_activations) const {
    return peak_ ? peak_->scaled(of_state, of_copies, of_activations) : 0;
  }

  // Null if it is estimated not to do.
  Suggestion* suggest(const std::string& change, std::int64_t about_bytes) {
    if (about_bytes > input_.budget_bytes) return nullptr;
    return &made_.emplace_back(Suggestion{change, input_.options, about_bytes});
  }

  static void suggest_other_meshes(Suggestion& suggestion) {
    suggestion.options.mesh.clear();
    suggestion.options.set.push_back("cluster.mesh=");
  }

  bool suggest_setting(const std::string& key_and_value, std::int64_t about_bytes) {
    Suggestion* suggestion = suggest(key_and_value, about_bytes);
    if (suggestion == nullptr) return false;
    suggestion->options.set.push_back(key_and_value);
    if (!mesh_.axes.empty()) suggestion->options.mesh = to_string(mesh_);
    return true;
  }

  // The first axis is the one between nodes; one axis alone gets another one before it.
  bool suggest_nodes(int factor) {
    Suggestion* suggestion = suggest(std::to_string(factor) + " times the nodes", about(1.0 / factor, 1.0 / factor, 1.0 / factor));
    if (suggestion == nullptr) return false;
    suggestion->options.node_factor = factor;
    Mesh mesh = mesh_;
    if (mesh.rank() == 1) mesh.axes.insert(mesh.axes.begin(), mesh.axes.front())->size = factor;
    else if (mesh.rank() > 1) mesh.axes.front().size *= factor;
    if (mesh.axes.empty()) suggest_other_meshes(*suggestion);
    else suggestion->options.mesh = to_string(mesh);
    return true;
  }

  const SuggestionInput& input_;
  std::optional<Peak> peak_;
  Mesh mesh_;  // of the smallest plan
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
