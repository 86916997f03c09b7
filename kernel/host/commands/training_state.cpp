#include "commands/training_state.h"

#include <charconv>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "plan_words.h"

namespace meshwright::host {

namespace {

constexpr const char* kStateFormat = "meshwright training state 1";
constexpr const char* kFirstMoment = "optimizer/first/";
constexpr const char* kSecondMoment = "optimizer/second/";
constexpr std::int64_t kMostSteps = 1'000'000'000'000;

// A value of the model that some stage keeps from step to step.
struct Kept {
  std::size_t stage = 0;
  ValueId in_stage = kNoId;
  bool is_trained = false;  // a parameter with a gradient
};

std::map<ValueId, Kept> kept_values(const RunnablePlan& plan) {
  std::map<ValueId, Kept> kept;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const std::vector<ValueId> in_model = values_in_model(plan.model, plan.graph(s));
    const Program& program = plan.made.programs[s];
    for (const ProgramParameter& parameter : program.parameters) kept.emplace(in_model[parameter.source], Kept{s, parameter.source, parameter.gradient != kNoId});
    for (const ProgramOutput& output : program.outputs) {
      if (output.buffer != kNoId) kept.emplace(in_model[output.buffer], Kept{s, output.buffer, false});
    }
  }
  return kept;
}

// By value of the model: what the model calls it.
std::map<ValueId, std::string> names_of(const Graph& model) {
  std::map<ValueId, std::string> names;
  for (const Source& source : model.sources) names.emplace(source.value, source.names.empty() ? model.values[source.value].name : source.names.front());
  return names;
}

bool keeps_first(Optimizer optimizer) { return optimizer != Optimizer::sgd; }
bool keeps_second(Optimizer optimizer) { return optimizer == Optimizer::adam || optimizer == Optimizer::adamw; }

// A number among the words of the file.
std::optional<std::int64_t> number_of(const std::map<std::string, std::string>& words, const char* key, std::int64_t most) {
  const auto found = words.find(key);
  if (found == words.end()) return std::nullopt;
  std::int64_t number = 0;
  const char* end = found->second.data() + found->second.size();
  const auto [stopped, problem] = std::from_chars(found->second.data(), end, number);
  if (problem != std::errc() || stopped != end || number < 0 || number > most) return std::nullopt;
  return number;
}

std::string word_of(const std::map<std::string, std::string>& words, const char* key) {
  const auto found = words.find(key);
  return found == words.end() ? "" : found->second;
}

// Takes tensors out of the file.
class Taker {
 public:
  Taker(Safetensors& content, const std::string& file) : content_(content), file_(file) {}

  Result<Tensor> take(const std::string& name, const TensorType& type) {
    const auto found = content_.tensors.find(name);
    if (found == content_.tensors.end()) return another_model("it has no '" + name + "', " + to_string(type) + " in this one");
    if (found->second.type() != type) return another_model("'" + name + "' is " + to_string(found->second.type()) + " there, and " + to_string(type) + " in this one");
    Tensor tensor = std::move(found->second);
    content_.tensors.erase(found);
    return tensor;
  }

  Error another_model(const std::string& why) const { return bad_input(file_ + ": is of another model: " + why + "; resume it with a plan of the model that it was saved from"); }

 private:
  Safetensors& content_;
  const std::string& file_;
};

}  // namespace

Result<TrainingState> fetch_training_state(const RunnablePlan& plan, const Runner& runner) {
  TrainingState state;
  for (const auto& [id, kept] : kept_values(plan)) {
    Result<Tensor> tensor = runner.fetch(kept.stage, kept.in_stage);
    if (!tensor) return tensor.error();
    state.tensors.emplace(id, std::move(*tensor));
    if (!kept.is_trained) continue;
    Result<OptimizerState> of = runner.fetch_state(kept.stage, kept.in_stage);
    if (!of) return of.error();
    state.states.emplace(id, std::move(*of));
  }
  return state;
}

Result<Safetensors> to_safetensors(const RunnablePlan& plan, const TrainingState& state) {
  Safetensors content;
  content.words = {{"format", kStateFormat}, {"optimizer", std::string(word(plan.training.optimizer))}, {"seed", std::to_string(state.seed)}, {"steps", std::to_string(state.steps)}};
  const std::map<ValueId, std::string> names = names_of(plan.model);
  const auto put = [&](const std::string& name, const Tensor& tensor) -> Status {
    if (content.tensors.emplace(name, tensor).second) return Done{};
    return bad_input("the model has two tensors named '" + name + "': its training can't be saved");
  };
  for (const auto& [id, tensor] : state.tensors) {
    if (Status status = put(names.at(id), tensor); !status) return status.error();
  }
  for (const auto& [id, of] : state.states) {
    if (of.steps == 0) continue;
    if (keeps_first(plan.training.optimizer)) {
      if (Status status = put(kFirstMoment + names.at(id), of.first); !status) return status.error();
    }
    if (keeps_second(plan.training.optimizer)) {
      if (Status status = put(kSecondMoment + names.at(id), of.second); !status) return status.error();
    }
  }
  return content;
}

Result<TrainingState> from_safetensors(const RunnablePlan& plan, Safetensors content, const std::string& file) {
  if (word_of(content.words, "format") != kStateFormat) return bad_input(file + ": was not written by `meshwright run --save`: it does not say that it is \"" + kStateFormat + "\"");
  const std::optional<std::int64_t> steps = number_of(content.words, "steps", kMostSteps), seed = number_of(content.words, "seed", std::numeric_limits<std::uint32_t>::max());
  if (!steps || !seed) return bad_input(file + ": its " + (steps ? "seed" : "number of steps") + " is missing, or no whole number in range; it is damaged");
  const Optimizer optimizer = plan.training.optimizer;
  if (const std::string saved = word_of(content.words, "optimizer"); saved != word(optimizer)) {
    return bad_input(file + ": was saved with the optimizer '" + saved + "', and the plan has '" + std::string(word(optimizer)) + "'; plan with --set train.optimizer=" + saved);
  }
  TrainingState state{*steps, static_cast<std::uint32_t>(*seed), {}, {}};
  const std::map<ValueId, std::string> names = names_of(plan.model);
  Taker taker(content, file);
  for (const auto& [id, kept] : kept_values(plan)) {
    const std::string& name = names.at(id);
    const TensorType& type = plan.model.values[id].type;
    Result<Tensor> tensor = taker.take(name, type);
    if (!tensor) return tensor.error();
    state.tensors.emplace(id, std::move(*tensor));
    if (!kept.is_trained || *steps == 0) continue;
    OptimizerState of{*steps, {}, {}};
    if (keeps_first(optimizer)) {
      Result<Tensor> first = taker.take(kFirstMoment + name, type);
      if (!first) return first.error();
      of.first = std::move(*first);
    }
    if (keeps_second(optimizer)) {
      Result<Tensor> second = taker.take(kSecondMoment + name, type);
      if (!second) return second.error();
      of.second = std::move(*second);
    }
    state.states.emplace(id, std::move(of));
  }
  // What this plan does not use of the model's own tensors may be there.
  std::set<std::string> known;
  for (const auto& [id, name] : names) known.insert({name, kFirstMoment + name, kSecondMoment + name});
  for (const auto& [name, tensor] : content.tensors) {
    if (!known.contains(name)) return taker.another_model("this one has no '" + name + "'");
  }
  return state;
}

}  // namespace meshwright::host
