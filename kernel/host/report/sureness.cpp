#include "report/sureness.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "plan_words.h"
#include "report/text_table.h"
#include "units.h"

namespace meshwright::host {

namespace {

std::string coefficient_text(const BreakEven& one) {
  switch (one.coefficient) {
    case CostCoefficient::link_bandwidth: return "bandwidth of level " + one.level;
    case CostCoefficient::link_latency: return "latency of level " + one.level;
    case CostCoefficient::product_rate: return "rate of matrix products";
    case CostCoefficient::attention_rate: return "rate of fused attention";
    case CostCoefficient::memory_bandwidth: return "memory bandwidth";
    case CostCoefficient::host_time: return "host's time to launch";
  }
  return "";
}

// With two digits of how far it is from 1: "0.61", "0.9987", "4.2".
std::string factor_text(double factor) {
  const int decimals = std::clamp(1 - static_cast<int>(std::floor(std::log10(std::abs(factor - 1) + 1e-9))), 1, 9);
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", decimals, factor);
  return text;
}

}  // namespace

std::string sureness_text(const Plan& plan) {
  if (!plan.runner_up) return "";
  constexpr std::size_t kMostTold = 3;
  const RunnerUp& second = *plan.runner_up;
  const double longer = second.step_seconds / plan.step_seconds - 1;
  const bool is_same_mesh = second.mesh == to_string(plan.mesh);
  std::string text = "The second best distinct plan (mesh " + second.mesh + ", step " + milliseconds(second.step_seconds) + ", " +
                     percent(std::abs(longer)) + (longer < 0 ? " shorter" : " longer") + ")";
  if (longer <= 0) {
    text += " is simulated as no slower as it is: this plan was chosen by its objective, which is " + milliseconds(plan.objective_seconds) + ", and " + milliseconds(second.objective_seconds) + " there.\n";
  } else {
    text += " would win if one figure were so many times what is assumed:\n";
    std::vector<std::vector<std::string>> rows = {{"figure", "times", "its part of this step", "of the second's"}};
    for (const BreakEven& one : second.break_evens) {
      rows.push_back({coefficient_text(one), one.factor ? factor_text(*one.factor) : "none found", milliseconds(one.part_seconds), milliseconds(one.runner_up_part_seconds)});
    }
    text += table_text(rows, 1) + "  none found: at no factor that was tried between 1/8 and 8, with no efficiency above 1\n";
  }
  if (!is_same_mesh) return text;
  for (std::size_t i = 0; i < std::min(second.differences.size(), kMostTold); ++i) text += (i == 0 ? "  It does otherwise: " : "                     ") + second.differences[i] + "\n";
  if (second.differences.size() > kMostTold) text += "                     and " + std::to_string(second.differences.size() - kMostTold) + " more\n";
  return text;
}

Json runner_up_json(const RunnerUp& runner_up) {
  Json::Array differences, break_evens;
  for (const std::string& text : runner_up.differences) differences.emplace_back(text);
  for (const BreakEven& one : runner_up.break_evens) {
    Json row;
    row.add("coefficient", word(one.coefficient));
    if (!one.level.empty()) row.add("level", one.level);
    row.add("part_seconds", one.part_seconds).add("runner_up_part_seconds", one.runner_up_part_seconds);
    row.add("factor", one.factor ? Json(*one.factor) : Json(nullptr));
    break_evens.push_back(std::move(row));
  }
  Json json;
  json.add("mesh", runner_up.mesh).add("objective_seconds", runner_up.objective_seconds).add("step_seconds", runner_up.step_seconds);
  return json.add("differences", std::move(differences)).add("break_evens", std::move(break_evens));
}

}  // namespace meshwright::host
