#include "as_started.h"

#include <algorithm>
#include <numeric>

namespace meshwright {

namespace {

// What is no multiple and no part of it goes, and so does what is said of partners in the groups inside.
void add_group(std::vector<GroupLevel>& levels, std::size_t group) {
  std::erase_if(levels, [&](const GroupLevel& level) { return level.group % group != 0 && group % level.group != 0; });
  for (GroupLevel& level : levels) level.aligned = false;
  levels.insert(std::ranges::lower_bound(levels, group, {}, &GroupLevel::group), {group, false});
}

}  // namespace

StartedHierarchy hierarchy_as_started(const LinkMatrix& links, const Result<Hierarchy>& found, std::size_t devices_per_node) {
  StartedHierarchy started;
  if (found) started.hierarchy = *found;
  std::vector<GroupLevel>& levels = started.hierarchy.levels;
  if (!found) {
    started.as_found = false;
    started.note = "Links form no groups that are alike (" + found.error().message + "), so all are taken to be as slow as the slowest";
    levels = {{links.devices, false}};
  } else if (!std::ranges::is_sorted(found->order)) {
    started.as_found = false;
    std::string order;
    for (const std::size_t device : found->order) order += " " + std::to_string(device);
    started.note = "Links would be used better with rank 0, 1, 2, ... on the measurement's device" + order + "; as ranks were started, a level is as slow as the slowest links among its neighbours";
    for (GroupLevel& level : levels) level.aligned = false;
  }
  started.hierarchy.order.resize(links.devices);
  std::iota(started.hierarchy.order.begin(), started.hierarchy.order.end(), std::size_t{0});
  const bool is_there = std::ranges::find(levels, devices_per_node, &GroupLevel::group) != levels.end();
  if (devices_per_node > 1 && links.devices % devices_per_node == 0 && !is_there) {
    add_group(levels, devices_per_node);
    started.as_found = false;
  }
  return started;
}

}  // namespace meshwright
