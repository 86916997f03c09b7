#include "report/shrink_report.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

namespace meshwright::host {

namespace {

constexpr std::size_t kShown = 2, kReasons = 8;

std::string few_of(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i) text += (i > 0 ? "; " : "") + names[i];
  return text + (names.size() > kShown ? "; and " + std::to_string(names.size() - kShown) + " more" : "");
}

std::string all_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

std::string shrinkage_text(const Shrinkage& made) {
  std::string text = "a smaller model was verified, with the plan's layouts, stages, schedule and recomputation; numbers below are of that one, and none is of the plan's own size\n";
  if (made.blocks.empty()) {
    text += "  blocks          none repeat\n";
  } else {
    text += "  blocks          " + std::to_string(made.blocks.size()) + " to " + std::to_string(made.kept_blocks.size()) + ": " + all_of(made.kept_blocks) + "\n";
  }
  std::map<std::string, std::vector<std::string>> unlike;
  for (const FewBlocks::Stays& stays : made.blocks_that_stay) unlike[stays.why].push_back(stays.block);
  for (const auto& [why, blocks] : unlike) text += "  not left out    " + few_of(blocks) + ": " + why + "\n";
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::string>, std::greater<>> smaller;
  for (const Shrinkage::Size& size : made.sizes) smaller[{size.before, size.after}].push_back(size.place);
  for (const auto& [size, places] : smaller) text += "  smaller         " + std::to_string(size.first) + " to " + std::to_string(size.second) + ", " + few_of(places) + "\n";
  std::map<std::string, std::vector<std::string>> kept;
  for (const Shrinkage::HeldSize& held : made.held) kept[held.why].push_back(std::to_string(held.size) + ", " + held.place);
  std::size_t lines = 0;
  for (const auto& [why, places] : kept) {
    if (++lines <= kReasons) text += "  not smaller     " + few_of(places) + ": " + why + "\n";
  }
  if (lines > kReasons) text += "  not smaller     for " + std::to_string(lines - kReasons) + " more reasons, which --format json names\n";
  return text + "  parameters      " + std::to_string(made.parameters_before) + " to " + std::to_string(made.parameters_after) + "\n";
}

Json shrinkage_json(const Shrinkage& made) {
  Json::Array kept, stays, sizes, held;
  for (const std::string& name : made.kept_blocks) kept.push_back(name);
  for (const FewBlocks::Stays& each : made.blocks_that_stay) stays.push_back(Json().add("block", each.block).add("why", each.why));
  for (const Shrinkage::Size& size : made.sizes) sizes.push_back(Json().add("place", size.place).add("before", size.before).add("after", size.after));
  for (const Shrinkage::HeldSize& size : made.held) held.push_back(Json().add("place", size.place).add("size", size.size).add("why", size.why));
  Json json;
  json.add("blocks_before", static_cast<std::int64_t>(made.blocks.size()));
  json.add("blocks", std::move(kept));
  json.add("blocks_that_stay", std::move(stays));
  json.add("sizes", std::move(sizes));
  json.add("held", std::move(held));
  json.add("parameters_before", made.parameters_before);
  json.add("parameters", made.parameters_after);
  return json;
}

}  // namespace meshwright::host
