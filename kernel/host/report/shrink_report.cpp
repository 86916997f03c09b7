#include "report/shrink_report.h"

#include <map>
#include <vector>

namespace meshwright::host {

namespace {

std::string joined_names(const std::vector<std::string>& names) {
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
    text += "  blocks          " + std::to_string(made.blocks.size()) + " to " + std::to_string(made.kept_blocks.size()) + ": " + joined_names(made.kept_blocks) + "\n";
  }
  for (const FewBlocks::Stays& stays : made.blocks_that_stay) text += "  not left out    " + stays.block + ": " + stays.why + "\n";
  for (const Shrinkage::Size& size : made.sizes) text += "  smaller         " + std::to_string(size.before) + " to " + std::to_string(size.after) + ", " + size.place + "\n";
  std::map<std::string, std::vector<const Shrinkage::HeldSize*>> by_reason;
  for (const Shrinkage::HeldSize& held : made.held) by_reason[held.why].push_back(&held);
  for (const auto& [why, all] : by_reason) {
    text += "  not smaller     ";
    for (std::size_t i = 0; i < all.size(); ++i) text += (i > 0 ? "; " : "") + std::to_string(all[i]->size) + ", " + all[i]->place;
    text += ": " + why + "\n";
  }
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
