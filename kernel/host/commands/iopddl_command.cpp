#include "commands/iopddl_command.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>

#include "config/toml_config.h"
#include "files/iopddl_reader.h"
#include "files/json.h"
#include "meshwright/reduce.h"
#include "meshwright/solver.h"
#include "plugins/plugin_host.h"
#include "report/report_error.h"

namespace meshwright::host {

namespace {

// Kept back from the solver for lifting, printing and leaving: as long again as reading took, and a share of all.
constexpr double kShareOfAll = 0.02;
constexpr double kShareOfReading = 0.5;
constexpr double kLeast = 0.1;

class Clock {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string text_of(TickSum value) {
  if (value < 0) return "-" + text_of(-value);
  std::string digits;
  do {
    digits += static_cast<char>('0' + static_cast<int>(value % 10));
    value /= 10;
  } while (value > 0);
  return {digits.rbegin(), digits.rend()};
}

std::string list_of(const std::vector<std::uint32_t>& choice) {
  std::string text = "[";
  for (std::size_t i = 0; i < choice.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(choice[i]);
  return text + "]\n";
}

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

Result<std::shared_ptr<IntraSolver>> open_solver(const IopddlOptions& options) {
  // What is set by the user comes after, and wins.
  std::vector<std::string> set = {"search.elimination.threads=2"};
  set.insert(set.end(), options.set.begin(), options.set.end());
  if (!options.intra.empty()) set.push_back("search.intra=" + options.intra);
  Result<ConfigTree> tree = read_config(options.config, set);
  if (!tree) return tree.error();
  Result<PluginHost> host = PluginHost::open(std::move(*tree));
  if (!host) return host.error();
  return host->create<IntraSolver>("intra", host->config().search.text("intra"));
}

struct Solved {
  Assignment answer;
  std::size_t nodes = 0;  // of the reduced space
  double seconds = 0;
};

Result<Solved> solve(const IopddlProblem& problem, const IntraSolver& solver, double seconds, const Clock& clock) {
  const double read = clock.seconds();
  Solved solved;
  const Reduction reduction = reduce(problem.space);
  if (reduction.infeasible) {
    solved.answer.status = SolveStatus::infeasible;
    solved.answer.binding = kNothingAllowed;
    return solved;
  }
  solved.nodes = reduction.space.nodes.size();
  SearchLimits limits;
  limits.work_limit = std::numeric_limits<std::int64_t>::max() / 2;  // the clock decides
  const double kept_back = kLeast + kShareOfAll * seconds + kShareOfReading * read;
  limits.deadline_seconds = std::max(0.0, seconds - clock.seconds() - kept_back);
  const std::vector<std::int64_t> budgets = {problem.usage_limit};
  const Result<std::vector<Assignment>> answers = solver.solve(reduction.space, budgets, limits);
  if (!answers) return answers.error();
  solved.answer = reduction.lift(problem.space, answers->front());
  solved.seconds = clock.seconds();
  return solved;
}

std::string as_text(const Solved& solved, std::int64_t limit) {
  const Assignment& answer = solved.answer;
  std::string text = "Status       " + std::string(name(answer.status)) + " (" + answer.method + ")" +
                     (answer.cut_off_by_clock ? ", cut off by the clock" : "") + "\n";
  text += "Cost         " + text_of(answer.cost) + "\n";
  text += "Lower bound  " + text_of(answer.lower_bound) + "\n";
  text += "Peak         " + std::to_string(answer.peak_bytes) + " of " + std::to_string(limit) + "\n";
  char seconds[64];
  std::snprintf(seconds, sizeof seconds, "%.2f", solved.seconds);
  return text + "Seconds      " + seconds + "\n";
}

std::string as_json(const Solved& solved, std::int64_t limit) {
  const Assignment& answer = solved.answer;
  Json json;
  // Costs as texts: they may be more than JSON's numbers hold.
  json.add("status", name(answer.status)).add("method", answer.method).add("cut_off_by_clock", answer.cut_off_by_clock);
  json.add("cost", text_of(answer.cost)).add("lower_bound", text_of(answer.lower_bound));
  json.add("peak", answer.peak_bytes).add("usage_limit", limit).add("seconds", solved.seconds);
  return write_json(json, true);
}

}  // namespace

int run_iopddl(const IopddlOptions& options) {
  const Clock clock;
  if (!(options.seconds > 0) || !std::isfinite(options.seconds)) {
    return report_error(bad_input("SECONDS must be a positive number"));
  }
  const Result<std::shared_ptr<IntraSolver>> solver = open_solver(options);
  if (!solver) return report_error(solver.error());
  const Result<IopddlProblem> problem = read_iopddl(options.input);
  if (!problem) return report_error(problem.error());
  const Result<Solved> solved = solve(*problem, **solver, options.seconds, clock);
  if (!solved) return report_error(solved.error());
  const Assignment& answer = solved->answer;
  if (answer.status == SolveStatus::infeasible) {
    return report_error(infeasible(options.input + ": no choice fits: " + answer.binding));
  }
  if (answer.choice.empty() && !problem->space.nodes.empty()) {
    return report_error(infeasible(options.input + ": no choice within the usage limit was found in " +
                                   std::to_string(options.seconds) + " s, and none is proven not to exist"));
  }
  print(options.format == "json" ? as_json(*solved, problem->usage_limit) : as_text(*solved, problem->usage_limit));
  print(list_of(answer.choice));
  return 0;
}

}  // namespace meshwright::host
