#include "commands/explain_command.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "commands/open_plan.h"
#include "files/json.h"
#include "meshwright/atoms.h"
#include "meshwright/recompute.h"
#include "nearest_name.h"
#include "pins.h"
#include "plan_notes.h"
#include "plan_words.h"
#include "report/report_error.h"
#include "report/sureness.h"
#include "report/text_table.h"
#include "search_settings.h"

namespace meshwright::host {

namespace {

std::string more(double seconds) { return (seconds < 0 ? "" : "+") + milliseconds(seconds); }

// What a variable could do instead.
struct Alternative {
  std::uint32_t strategy = 0;
  std::string text;
  std::optional<double> alone_seconds;  // more than the plan takes, if only its parameters change too; nothing: not allowed
  bool searched = false;
  std::optional<double> best_seconds;   // more than the plan takes, with all else as good as it can be
  std::int64_t peak_bytes = 0;          // by the search's terms
};

struct Explanation {
  std::string kind, name, op, module, chosen;
  double forward_seconds = 0, backward_seconds = 0, communication_seconds = 0, conversion_seconds = 0, update_seconds = 0;
  std::vector<Alternative> alternatives;  // cheapest first
};

class Explainer {
 public:
  Explainer(OpenPlan& opened, const ExplainOptions& options) : opened_(opened), plan_(opened.plan), options_(options) {}

  Status prepare() {
    const Config& search = opened_.host.config().search;
    Result<StrategyFilter> filter = wanted_filter(search, plan_.mesh);
    if (!filter) return filter.error();
    input_.emplace(ProblemInput{opened_.tools.context(plan_.model, plan_.training, &plan_.part), plan_.mesh, *filter, plan_.recomputed});
    Result<Problem> problem = build_problem(*input_);
    if (!problem) return problem.error();
    problem_ = std::move(*problem);
    if (Status pinned = apply_pins(opened_.host.config().pins, *input_, problem_); !pinned) return pinned;
    std::string id = search.text("intra");
    for (const UsedPlugin& plugin : plan_.plugins) {
      if (plugin.kind == "intra") id = plugin.id;
    }
    Result<std::shared_ptr<IntraSolver>> solver = opened_.host.create<IntraSolver>("intra", id);
    if (!solver) return solver.error();
    solver_ = std::move(*solver);
    return find_choice();
  }

  // The variables of that name: a node, and the fork of its result. All of them if it is "".
  Result<std::vector<std::uint32_t>> find(const std::string& name) const {
    std::vector<std::uint32_t> found;
    std::vector<std::string> known;
    for (std::uint32_t i = 0; i < plan_.variables.size(); ++i) {
      known.push_back(plan_.name(plan_.variables[i]));
      if (name.empty() || known.back() == name) found.push_back(i);
    }
    if (found.empty()) return bad_input("the plan chooses nothing for '" + name + "'" + suggest_near(name, known));
    return found;
  }

  [[nodiscard]] Explanation describe(std::uint32_t variable) const {
    const PlannedVariable& planned = plan_.variables[variable];
    Explanation made;
    made.kind = word(planned.kind());
    made.name = plan_.name(planned);
    if (const PlannedNode* node = planned.node()) made.op = plan_.graph().nodes[node->node].op;
    made.module = plan_.module(planned);
    made.chosen = choice_text(plan_.model, planned);
    const auto microbatches = static_cast<double>(plan_.training.microbatches);
    made.forward_seconds = microbatches * planned.forward_seconds;
    made.backward_seconds = microbatches * planned.backward_seconds;
    made.communication_seconds = microbatches * planned.communication_seconds;
    made.update_seconds = planned.update_seconds;
    for (const PlannedConversion& conversion : plan_.conversions) {
      const std::uint32_t user = conversion.gradient ? conversion.from : conversion.to;
      if (user == variable) made.conversion_seconds += conversion.seconds() * static_cast<double>(conversion.times);
    }
    return made;
  }

  Result<std::vector<Alternative>> alternatives(std::uint32_t variable) {
    const TickSum base = evaluate(problem_.space, choice_).cost;
    std::vector<Alternative> all;
    const std::vector<Strategy>& strategies = problem_.variables[variable].set->strategies;
    for (std::uint32_t s = 0; s < strategies.size(); ++s) {
      if (s == choice_[variable]) continue;
      Alternative& one = all.emplace_back();
      one.strategy = s;
      one.text = choice_text(plan_.model, plan_variable(*input_, problem_.variables[variable], strategies[s]));
      std::vector<std::uint32_t> changed = choice_;
      changed[variable] = s;
      adapt_parameters(variable, changed);
      const Evaluation evaluation = evaluate(problem_.space, changed);
      if (evaluation.allowed) one.alone_seconds = to_seconds(evaluation.cost - base);
    }
    std::stable_sort(all.begin(), all.end(), [](const Alternative& a, const Alternative& b) {
      if (a.alone_seconds.has_value() != b.alone_seconds.has_value()) return a.alone_seconds.has_value();
      return a.alone_seconds && *a.alone_seconds < *b.alone_seconds;
    });
    for (std::size_t i = 0; i < all.size() && i < static_cast<std::size_t>(options_.most); ++i) {
      if (Status status = search_with(variable, base, all[i]); !status) return status.error();
    }
    std::stable_sort(all.begin(), all.end(), [](const Alternative& a, const Alternative& b) {
      if (a.best_seconds.has_value() != b.best_seconds.has_value()) return a.best_seconds.has_value();
      return a.best_seconds && *a.best_seconds < *b.best_seconds;
    });
    return all;
  }

 private:
  static std::string suggest_near(const std::string& name, const std::vector<std::string>& known) {
    const std::string nearest = nearest_name(name, known);
    return nearest.empty() ? "; without a name `explain` lists what takes most time" : "; did you mean \"" + nearest + "\"?";
  }

  // The parameters that a variable computes with, each as it is best beside it.
  void adapt_parameters(std::uint32_t variable, std::vector<std::uint32_t>& choice) const {
    for (const ProblemEdge& edge : problem_.edges) {
      if (edge.to != variable || !edge.of_parameter) continue;
      std::optional<TickSum> least;
      std::uint32_t best = choice[edge.from];
      for (std::uint32_t s = 0; s < problem_.space.nodes[edge.from].costs.size(); ++s) {
        choice[edge.from] = s;
        const std::optional<TickSum> cost = cost_at(edge.from, choice);
        if (!cost || (least && *cost >= *least)) continue;
        least = cost;
        best = s;
      }
      choice[edge.from] = best;
    }
  }

  // Of a variable and its edges; nothing: not allowed.
  [[nodiscard]] std::optional<TickSum> cost_at(std::uint32_t variable, const std::vector<std::uint32_t>& choice) const {
    TickSum sum = 0;
    bool allowed = true;
    const auto add = [&](Ticks cost) {
      allowed &= cost < kForbidden;
      if (allowed) sum += cost;
    };
    add(problem_.space.nodes[variable].costs[choice[variable]]);
    for (const SpaceEdge& edge : problem_.space.edges) {
      if (edge.from != variable && edge.to != variable) continue;
      const CostTable& table = problem_.space.tables[edge.table];
      add(table.costs[std::size_t{choice[edge.from]} * table.columns + choice[edge.to]]);
    }
    return allowed ? std::optional(sum) : std::nullopt;
  }

  // The strategies that the plan's file says, by what they are.
  Status find_choice() {
    if (problem_.variables.size() != plan_.variables.size()) return another_search("it has another number of choices");
    for (std::size_t i = 0; i < plan_.variables.size(); ++i) {
      const std::vector<Strategy>& strategies = problem_.variables[i].set->strategies;
      const auto found = std::find_if(strategies.begin(), strategies.end(), [&](const Strategy& strategy) {
        return same_choice(plan_variable(*input_, problem_.variables[i], strategy), plan_.variables[i]);
      });
      if (found == strategies.end()) return another_search("'" + plan_.name(plan_.variables[i]) + "' cannot be " + choice_text(plan_.model, plan_.variables[i]) + " in it");
      choice_.push_back(static_cast<std::uint32_t>(found - strategies.begin()));
    }
    return Done{};
  }

  static Status another_search(const std::string& why) {
    return bad_input("the search that is explained is not the one that the plan came from: " + why +
                     "; give the configuration and settings with which it was planned (--config, --set)");
  }

  Status search_with(std::uint32_t variable, TickSum base, Alternative& alternative) {
    std::vector<Ticks>& costs = problem_.space.nodes[variable].costs;
    const std::vector<Ticks> before = costs;
    for (std::size_t s = 0; s < costs.size(); ++s) {
      if (s != alternative.strategy) costs[s] = kForbidden;
    }
    Result<Assignment> answer = solve_problem(*solver_, {*input_, problem_}, plan_.budget_bytes, opened_.host.config().search);
    costs = before;
    if (!answer) return answer.error();
    alternative.searched = true;
    if (answer->choice.empty()) return Done{};
    alternative.best_seconds = to_seconds(answer->cost - base);
    alternative.peak_bytes = answer->peak_bytes;
    return Done{};
  }

  OpenPlan& opened_;
  const Plan& plan_;
  const ExplainOptions& options_;
  std::optional<ProblemInput> input_;
  Problem problem_;
  std::shared_ptr<IntraSolver> solver_;
  std::vector<std::uint32_t> choice_;  // the plan's
};

double seconds_of(const Explanation& one) {
  return one.forward_seconds + one.backward_seconds + one.communication_seconds + one.conversion_seconds + one.update_seconds;
}

Json json_of(const Explanation& one) {
  Json json;
  json.add("kind", one.kind).add("name", one.name).add("op", one.op).add("module", one.module).add("chosen", one.chosen);
  json.add("forward_seconds", one.forward_seconds).add("backward_seconds", one.backward_seconds);
  json.add("communication_seconds", one.communication_seconds).add("conversion_seconds", one.conversion_seconds);
  json.add("update_seconds", one.update_seconds);
  Json::Array alternatives;
  for (const Alternative& alternative : one.alternatives) {
    Json row;
    row.add("strategy", alternative.text).add("allowed_alone", alternative.alone_seconds.has_value());
    if (alternative.alone_seconds) row.add("alone_adds_seconds", *alternative.alone_seconds);
    if (alternative.searched) row.add("fits", alternative.best_seconds.has_value());
    if (alternative.best_seconds) row.add("adds_seconds", *alternative.best_seconds).add("peak_bytes", alternative.peak_bytes);
    alternatives.push_back(std::move(row));
  }
  if (!one.alternatives.empty()) json.add("alternatives", std::move(alternatives));
  return json;
}

std::string text_of(const Explanation& one) {
  std::string text = one.kind + " " + one.name + (one.op.empty() ? "" : ", " + one.op) + (one.module.empty() ? "" : ", in " + one.module) + "\n";
  text += "  chosen: " + one.chosen + "\n  forward " + milliseconds(one.forward_seconds) + ", backward " + milliseconds(one.backward_seconds) +
          ", communication inside " + milliseconds(one.communication_seconds) + ", of what it gets " + milliseconds(one.conversion_seconds);
  if (one.update_seconds > 0) text += ", update " + milliseconds(one.update_seconds);
  text += "\n\n";
  std::vector<std::vector<std::string>> rows = {{"instead", "with its parameters alone", "all else at its best", "peak memory"}};
  std::size_t left_out = 0;
  for (const Alternative& alternative : one.alternatives) {
    if (!alternative.searched) {
      ++left_out;
      continue;
    }
    const bool fits = alternative.best_seconds.has_value();
    rows.push_back({alternative.text, alternative.alone_seconds ? more(*alternative.alone_seconds) : "not allowed",
                    fits ? more(*alternative.best_seconds) : "no plan", fits ? size_text(alternative.peak_bytes) : ""});
  }
  if (rows.size() == 1) return text + "  There is no alternative.\n";
  text += table_text(rows, 1);
  if (left_out > 0) text += "  and " + std::to_string(left_out) + " more, dearer with their parameters alone (--alternatives)\n";
  return text;
}

std::string overview(const std::vector<Explanation>& all, std::size_t most) {
  std::vector<std::vector<std::string>> rows = {{"name", "op", "chosen", "compute", "communication", "to get its operands"}};
  for (std::size_t i = 0; i < std::min(most, all.size()); ++i) {
    const Explanation& one = all[i];
    rows.push_back({one.name, one.op.empty() ? one.kind : one.op, one.chosen, milliseconds(one.forward_seconds + one.backward_seconds + one.update_seconds),
                    milliseconds(one.communication_seconds), milliseconds(one.conversion_seconds)});
  }
  return "What takes most time, of " + std::to_string(all.size()) + " choices (name one to see its alternatives):\n" + table_text(rows, 3);
}

struct Explained {
  std::vector<Explanation> choices;
  std::string again;            // what is said of what runs again for the backward; where no name was given
  std::string sure;             // how sure the whole plan is; likewise
  std::optional<Json> runner_up;  // likewise
};

Result<Explained> explain(const ExplainOptions& options) {
  Result<OpenPlan> opened = open_plan(options.plan);
  if (!opened) return opened.error();
  Explainer explainer(*opened, options);
  if (Status status = explainer.prepare(); !status) return status.error();
  Result<std::vector<std::uint32_t>> variables = explainer.find(options.name);
  if (!variables) return variables.error();
  std::vector<Explanation> all;
  for (const std::uint32_t variable : *variables) {
    all.push_back(explainer.describe(variable));
    if (options.name.empty()) continue;
    Result<std::vector<Alternative>> alternatives = explainer.alternatives(variable);
    if (!alternatives) return alternatives.error();
    all.back().alternatives = std::move(*alternatives);
  }
  if (options.name.empty()) {
    std::stable_sort(all.begin(), all.end(), [](const Explanation& a, const Explanation& b) { return seconds_of(a) > seconds_of(b); });
  }
  Explained explained{std::move(all), {}, {}, {}};
  if (options.name.empty()) explained.again = recomputed_text(opened->plan.model, opened->plan.recomputed);
  if (!options.name.empty() || !opened->plan.runner_up) return explained;
  explained.sure = sureness_text(opened->plan);
  explained.runner_up = runner_up_json(*opened->plan.runner_up);
  return explained;
}

}  // namespace

int run_explain(const ExplainOptions& options) {
  const Result<Explained> explained = explain(options);
  if (!explained) return fail(options.plan, explained.error());
  const std::vector<Explanation>& all = explained->choices;
  std::string text;
  if (options.plan.format == "json") {
    Json::Array rows;
    for (const Explanation& one : all) rows.push_back(json_of(one));
    Json json = Json().add("explained", std::move(rows));
    if (explained->runner_up) json.add("runner_up", *explained->runner_up);
    text = write_json(json);
  } else if (options.name.empty()) {
    text = overview(all, static_cast<std::size_t>(options.most));
    if (!explained->again.empty()) text += "\n" + explained->again + ".\n";
    if (!explained->sure.empty()) text += "\n" + explained->sure;
  } else {
    for (const Explanation& one : all) text += (text.empty() ? "" : "\n") + text_of(one);
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace meshwright::host
