#include "report/price_text.h"

#include <algorithm>
#include <cstdio>

#include "units.h"

namespace meshwright::host {

namespace {

std::string price_row(const std::string& what, const PlanPrice& price) { return "#   " + what + milliseconds(price.step_seconds) + ", at most " + size_text(price.peak_bytes) + " on a device"; }

// One line, whatever a refusal says.
std::string refusal_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  std::ranges::replace_if(line, [](char letter) { return letter < ' ' || letter > '~'; }, '?');
  return line;
}

}  // namespace

std::string price_text(const AskedPrice& price) {
  std::string text = "# A step, simulated by Meshwright's clock:\n" + price_row("the plan         ", price.plan) + "\n";
  if (!price.asked) return text + "#   as written here  there is no such plan: " + refusal_line(price.refusal) + "\n";
  char ratio[64];
  std::snprintf(ratio, sizeof ratio, "%.3f", price.asked->step_seconds / price.plan.step_seconds);
  text += price_row("as written here  ", *price.asked) + ": " + ratio + " times as long\n";
  if (price.refusal.empty()) return text;
  if (price.asked->peak_bytes > price.budget_bytes) return text + "#   That is more than the " + size_text(price.budget_bytes) + " that the plan was made for: it does not fit.\n";
  return text + "#   No plan was found for it that fits as the plan does: " + refusal_line(price.refusal) + "\n";
}

}  // namespace meshwright::host
