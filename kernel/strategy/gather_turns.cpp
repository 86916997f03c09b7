#include "strategy/gather_turns.h"

#include <algorithm>

#include "meshwright/gather_units.h"

namespace meshwright {

namespace {

// The units of a phase, and when the first parameter of each is computed with.
class Turns {
 public:
  explicit Turns(std::int32_t begin) : begin_(begin) {}

  void add(std::uint32_t unit, std::int32_t time) {
    const auto [turn, inserted] = at_.try_emplace(unit, time);
    turn->second = std::min(turn->second, time);
  }

  // A unit that is prefetched is gathered beside the one before; the first with its phase.
  [[nodiscard]] GatherTurn of(std::uint32_t unit) const {
    const auto here = at_.find(unit);
    if (here == at_.end()) return {};
    GatherTurn turn{here->second, begin_};
    for (const auto& [other, at] : at_) {
      if (other != unit && at <= turn.at) turn.ahead = std::max(turn.ahead, at);
    }
    return turn;
  }

 private:
  std::int32_t begin_;
  std::map<std::uint32_t, std::int32_t> at_;
};

}  // namespace

std::map<std::uint32_t, GatherTurns> gather_turns(const ProblemInput& input, const Problem& problem, const VariableFlow& flow) {
  std::map<ValueId, std::uint32_t> variables;
  for (std::uint32_t i = 0; i < problem.variables.size(); ++i) {
    if (problem.variables[i].kind == VariableKind::parameter) variables[problem.variables[i].value] = i;
  }
  std::vector<NamedBytes> names;
  std::vector<std::uint32_t> parameters;  // variables, in the model's order
  for (const Source& source : input.graph().sources) {
    const auto at = variables.find(source.value);
    if (at == variables.end()) continue;
    parameters.push_back(at->second);
    names.push_back({source.names.empty() ? input.graph().values[source.value].name : source.names[0], input.graph().type(source.value).bytes()});
  }
  const std::vector<std::uint32_t> units = gather_units(names, input.profile.bucket_bytes);
  const auto count = static_cast<std::int32_t>(problem.variables.size());
  Turns forward(0), backward(count);
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const VariableFlow::Uses uses = flow.uses_of(parameters[p]);
    forward.add(units[p], static_cast<std::int32_t>(uses.first));
    if (uses.first_saver != kNoId) backward.add(units[p], 2 * count - 1 - static_cast<std::int32_t>(uses.last_saver));
  }
  std::map<std::uint32_t, GatherTurns> turns;
  for (std::size_t p = 0; p < parameters.size(); ++p) turns[parameters[p]] = {forward.of(units[p]), backward.of(units[p])};
  return turns;
}

}  // namespace meshwright
