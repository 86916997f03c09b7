#include "report/module_table.h"

#include <algorithm>
#include <map>

#include "numbered_name.h"

namespace meshwright::host {

namespace {

// How often each kind of collective runs along each axis.
using Collectives = std::map<std::string, std::map<std::string, int>>;

struct ModuleSum {
  std::string module;
  std::string weights;
  Collectives in_line, beside;
  ModuleRow row;
};

// "" for a move that makes no devices talk.
const char* abbreviation(MoveKind kind) {
  switch (kind) {
    case MoveKind::all_gather: return "AG";
    case MoveKind::reduce_scatter: return "RS";
    case MoveKind::all_reduce: return "AR";
    case MoveKind::all_to_all: return "AA";
    case MoveKind::permute: return "PM";
    case MoveKind::slice:
    case MoveKind::keep_one: break;
  }
  return "";
}

// "AG(0,1) 2AR(1) AR(0+1)": axes that run a kind equally often stand together; over 0 and 1 at once: 0+1.
std::string collectives_text(const Collectives& collectives) {
  std::string text;
  for (const auto& [kind, axes] : collectives) {
    std::map<int, std::string> by_count;
    for (const auto& [axis, count] : axes) {
      std::string& list = by_count[count];
      list += (list.empty() ? "" : ",") + axis;
    }
    for (const auto& [count, list] : by_count) {
      text += (text.empty() ? "" : " ") + (count > 1 ? std::to_string(count) : "") + kind + "(" + list + ")";
    }
  }
  return text;
}

std::string last_part(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string::npos ? path : path.substr(dot + 1);
}

class Table {
 public:
  explicit Table(const Plan& plan) : plan_(plan) {}

  std::vector<ModuleRow> run() {
    for (const PlannedVariable& variable : plan_.variables) add_variable(variable);
    for (const PlannedConversion& conversion : plan_.conversions) add_conversion(conversion);
    for (ModuleSum& sum : sums_) {
      sum.row.weights = sum.weights;
      sum.row.in_line = collectives_text(sum.in_line);
      sum.row.beside = collectives_text(sum.beside);
    }
    strip_prefix();
    for (ModuleSum& sum : sums_) sum.row.module = sum.module.empty() ? "(model)" : sum.module;
    return fold();
  }

 private:
  // Leaves out the leading parts of the path that all modules have in common.
  void strip_prefix() {
    while (true) {
      const std::string first = sums_.empty() ? "" : sums_.front().module;
      const std::size_t dot = first.find('.');
      if (dot == std::string::npos) return;
      const std::string part = first.substr(0, dot + 1);
      for (const ModuleSum& sum : sums_) {
        if (!sum.module.starts_with(part) && sum.module + "." != part) return;
      }
      for (ModuleSum& sum : sums_) sum.module.erase(0, std::min(part.size(), sum.module.size()));
    }
  }

  // A fork or an output belongs to the module that made its value.
  std::string module_of(const PlannedVariable& variable) {
    if (variable.node() != nullptr || variable.parameter() != nullptr) return plan_.module(variable);
    const auto* fork = std::get_if<PlannedFork>(&variable.choice);
    const auto made = maker_.find(fork != nullptr ? fork->value : std::get<PlannedOutput>(variable.choice).value);
    return made == maker_.end() ? "" : made->second;
  }

  ModuleSum& sum_of(const std::string& module) {
    const auto [found, inserted] = numbers_.try_emplace(module, sums_.size());
    if (inserted) sums_.emplace_back().module = module;
    return sums_[found->second];
  }

  void add_variable(const PlannedVariable& variable) {
    const std::string module = module_of(variable);
    if (const PlannedNode* node = variable.node()) {
      for (const ValueId result : plan_.graph().nodes[node->node].results) maker_.try_emplace(result, module);
    } else if (const PlannedParameter* parameter = variable.parameter()) {
      maker_.try_emplace(parameter->value, module);
    }
    ModuleSum& sum = sum_of(module);
    const auto microbatches = static_cast<double>(plan_.training.microbatches);
    sum.row.compute_seconds += microbatches * (variable.forward_seconds + variable.backward_seconds) + variable.update_seconds;
    sum.row.communication_seconds += microbatches * variable.communication_seconds;
    sum.row.saved_bytes += variable.saved_bytes;
    sum.row.state_bytes += variable.state_bytes + variable.gradient_bytes;
    const PlannedParameter* parameter = variable.parameter();
    if (parameter == nullptr) return;
    const auto layout = [&](const Layout& of) { return to_string(of, plan_.shape(parameter->value)); };
    std::string text = last_part(plan_.name(variable)) + " " + layout(parameter->compute);
    if (parameter->compute != parameter->stored.value) text += " from " + layout(parameter->stored.value);
    else if (parameter->state != parameter->compute) text += " ZeRO " + layout(parameter->state);
    sum.weights += (sum.weights.empty() ? "" : ", ") + text;
  }

  // A parameter's conversion belongs to the parameter, another to the module that uses the value.
  void add_conversion(const PlannedConversion& conversion) {
    const std::uint32_t user = conversion.gradient ? conversion.from : conversion.to;
    const std::uint32_t maker = conversion.gradient ? conversion.to : conversion.from;
    ModuleSum& sum = sum_of(user == kNoId ? "" : module_of(plan_.variables[conversion.hides ? maker : user]));
    sum.row.communication_seconds += static_cast<double>(conversion.times) * conversion.seconds();
    for (const PlannedMove& planned : conversion.moves) {
      const std::string kind = abbreviation(planned.move.kind);
      if (!kind.empty()) ++(conversion.hides ? sum.beside : sum.in_line)[kind][short_axes_text(planned.move)];
    }
  }

  std::vector<ModuleRow> fold() {
    std::vector<ModuleRow> rows;
    struct Fold {
      std::size_t row;
      NameNumbers numbers;
    };
    std::map<std::string, Fold> folds;
    for (const ModuleSum& sum : sums_) {
      const auto [pattern, number] = numbered_name(sum.module);
      const std::string key = pattern + "\n" + sum.weights + "\n" + sum.row.in_line + "\n" + sum.row.beside;
      const auto [found, inserted] = folds.try_emplace(key, Fold{rows.size(), {}});
      found->second.numbers.add(number);
      if (inserted || number.empty()) {
        found->second.row = inserted ? found->second.row : rows.size();
        rows.push_back(sum.row);
        continue;
      }
      ModuleRow& row = rows[found->second.row];
      ++row.times;
      row.compute_seconds += sum.row.compute_seconds;
      row.communication_seconds += sum.row.communication_seconds;
      row.saved_bytes += sum.row.saved_bytes;
      row.state_bytes += sum.row.state_bytes;
      row.module = found->second.numbers.text(pattern);
    }
    return rows;
  }

  const Plan& plan_;
  std::vector<ModuleSum> sums_;
  std::map<std::string, std::size_t> numbers_;
  std::map<ValueId, std::string> maker_;  // module by value
};

}  // namespace

const char* const kCollectiveLegend =
    "AG all-gather, RS reduce-scatter, AR all-reduce, AA all-to-all, PM permute, each with its mesh axes; "
    "in line: between ops; beside: of parameters, beside the computing";

std::vector<ModuleRow> module_table(const Plan& plan) { return Table(plan).run(); }

}  // namespace meshwright::host
